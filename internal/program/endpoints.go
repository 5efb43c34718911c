package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// disabled is an address that turns an endpoint off.
const disabled = "0"

// shutdownTimeout is how long an endpoint lets running requests end.
const shutdownTimeout = 10 * time.Second

// Endpoints are where a manager is reached, besides hooks of extensions. The address "0" turns an endpoint off.
type Endpoints struct {
	// Probes serves /healthz and /readyz without TLS.
	Probes string
	// Metrics serves /metrics over TLS to clients that the API server lets get that path.
	Metrics string
	// InsecureMetrics serves them to anybody, without TLS.
	InsecureMetrics bool
	// WebhookHost and WebhookPort serve webhooks over TLS, by default on port 9443 of all addresses.
	WebhookHost string
	WebhookPort int
	// WebhookCertDir holds tls.crt and tls.key, which are read again when they change.
	WebhookCertDir string
}

// NewManager makes a manager whose endpoints limit their connections, by sdk/listener. Those of controller-runtime
// have as many as clients make, and take no listener.
func NewManager(config *rest.Config, options ctrl.Options, e Endpoints) (ctrl.Manager, error) {
	options.Metrics = metricsserver.Options{BindAddress: disabled}
	options.HealthProbeBindAddress = disabled
	options.WebhookServer = newWebhookServer(webhook.Options{Host: e.WebhookHost, Port: e.WebhookPort, CertDir: e.WebhookCertDir})
	inner, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	m := &probed{Manager: inner, live: &healthz.Handler{Checks: map[string]healthz.Checker{}}, ready: &healthz.Handler{Checks: map[string]healthz.Checker{}}}
	return m, errors.Join(m.serveProbes(e.Probes), serveMetrics(inner, e))
}

// probed is a manager whose checks this package serves. They are added before Start.
type probed struct {
	ctrl.Manager
	live, ready *healthz.Handler
}

// AddHealthzCheck implements manager.Manager.
func (m *probed) AddHealthzCheck(name string, check healthz.Checker) error {
	m.live.Checks[name] = check
	return nil
}

// AddReadyzCheck implements manager.Manager.
func (m *probed) AddReadyzCheck(name string, check healthz.Checker) error {
	m.ready.Checks[name] = check
	return nil
}

func (m *probed) serveProbes(address string) error {
	if address == disabled {
		return nil
	}
	mux := http.NewServeMux()
	for path, checks := range map[string]http.Handler{"/healthz": m.live, "/readyz": m.ready} {
		mux.Handle(path, http.StripPrefix(path, checks))
		mux.Handle(path+"/", http.StripPrefix(path, checks))
	}
	return serve(m, "health probe", address, mux, nil)
}

func serveMetrics(m ctrl.Manager, e Endpoints) error {
	if e.Metrics == disabled {
		return nil
	}
	mux := http.NewServeMux()
	if e.InsecureMetrics {
		mux.Handle("/metrics", exposition())
		return serve(m, "metrics", e.Metrics, mux, nil)
	}
	handler, err := authorized(m.GetConfig(), m.GetHTTPClient(), m.GetLogger())
	if err != nil {
		return fmt.Errorf("authorize clients of /metrics: %w", err)
	}
	mux.Handle("/metrics", handler)
	// As upstream's does: it encrypts, and clients do not verify it.
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return fmt.Errorf("make the certificate of /metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("make the certificate of /metrics: %w", err)
	}
	return serve(m, "metrics", e.Metrics, mux, overTLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }))
}

// serve adds a server to a manager, without TLS where config is nil.
func serve(m ctrl.Manager, name, address string, handler http.Handler, config *tls.Config) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for the %s endpoint: %w", name, err)
	}
	if config == nil {
		l = listener.New(l, listener.Options{})
	} else {
		l = listener.NewTLS(l, config, listener.Options{})
	}
	return m.Add(&manager.Server{Name: name, Listener: l, Server: newServer(handler), ShutdownTimeout: ptr.To(shutdownTimeout)})
}

// overTLS is how each endpoint is served that has a certificate; see newServer for its protocol.
func overTLS(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: certificate}
}

// certificateOf reads tls.crt and tls.key of a directory, again when they change while it is started.
func certificateOf(dir string) (*certwatcher.CertWatcher, error) {
	return certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
}

// ServeTLS adds a server to a manager whose certificate is tls.crt and tls.key of a directory, read again when they change.
func ServeTLS(m ctrl.Manager, name, address, certDir string, handler http.Handler) error {
	certificates, err := certificateOf(certDir)
	if err != nil {
		return fmt.Errorf("read the certificate of the %s endpoint: %w", name, err)
	}
	return errors.Join(m.Add(certificates), serve(m, name, address, handler, overTLS(certificates.GetCertificate)))
}

// newServer serves one request of a connection after the other: with HTTP/2 a connection has hundreds of them, each with
// memory for its header and body.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: boundBodies(handler, maxBodies), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 64 << 10,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
}

// webhookServer is upstream's but for the listener.
type webhookServer struct {
	webhook.Server
	options webhook.Options
	started atomic.Bool
}

func newWebhookServer(o webhook.Options) *webhookServer {
	o.WebhookMux = http.NewServeMux()
	return &webhookServer{Server: webhook.NewServer(o), options: o}
}

// Start implements manager.Runnable.
func (s *webhookServer) Start(ctx context.Context) error {
	certificates, err := certificateOf(s.options.CertDir)
	if err != nil {
		return fmt.Errorf("read the certificate of the webhooks: %w", err)
	}
	port := s.options.Port
	if port == 0 {
		port = webhook.DefaultPort
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(s.options.Host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	watching := make(chan error, 1)
	go func() { watching <- certificates.Start(ctx) }()
	server := &manager.Server{Name: "webhooks", Listener: listener.NewTLS(l, overTLS(certificates.GetCertificate), listener.Options{}), Server: newServer(s.options.WebhookMux), ShutdownTimeout: ptr.To(time.Minute)}
	s.started.Store(true)
	err = server.Start(ctx)
	return errors.Join(err, <-watching)
}

// StartedChecker implements webhook.Server.
func (s *webhookServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhooks are not served yet")
		}
		return nil
	}
}
