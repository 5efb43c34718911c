package hookserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/sdk/extension"
)

// ErrOpen is why no server is made that would answer anybody.
var ErrOpen = errors.New("anybody who reaches the port could call hooks: set --extension-client-ca-file to the CA of core's client certificate, or --insecure-hooks")

// Options of a server.
type Options struct {
	// Address to listen on.
	Address string
	// CertDir holds tls.crt and tls.key, which are read again when they change.
	CertDir string
	// ClientCAFile holds the CAs, in PEM form, one of which must have signed the
	// certificate of who calls hooks. It is read again when it changes.
	ClientCAFile string
	// ClientNames are the common names of the certificates that may call; all that the
	// CAs have signed when empty.
	ClientNames []string
	// Insecure has hooks answered to callers without a certificate.
	Insecure bool
	// DrainDelay is how long hooks are still answered after the end was asked for.
	DrainDelay time.Duration
	// Tracer makes a span for each call; nil for none.
	Tracer trace.TracerProvider
}

// Validate returns ErrOpen when anybody could call.
func (o Options) Validate() error {
	if o.ClientCAFile == "" && !o.Insecure {
		return ErrOpen
	}
	return nil
}

// Server serves hooks in every replica of a manager. The manager starts it when its
// caches are filled: until then callers are refused the connection, which fails closed.
type Server struct {
	// Hooks is where handlers are registered before the start.
	Hooks *extension.Server
	// Metrics are those of the server. Who may scrape is not who may call hooks, so they
	// are to be served with those of the manager.
	Metrics *prometheus.Registry

	address string
	serving atomic.Bool
}

// New makes a server; the error is ErrOpen, or says which file cannot be read.
func New(o Options, logger logr.Logger) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	options := extension.Options{
		CertFile:   filepath.Join(o.CertDir, "tls.crt"),
		KeyFile:    filepath.Join(o.CertDir, "tls.key"),
		DrainDelay: o.DrainDelay,
		Metrics:    metrics,
		Tracer:     o.Tracer,
		Logger:     logger,
	}
	if !o.Insecure {
		options.ClientCAFile = o.ClientCAFile
		options.Middleware = only(o.ClientNames)
	}
	server, err := extension.New(options)
	if err != nil {
		return nil, err
	}
	return &Server{Hooks: server, Metrics: metrics, address: o.Address}, nil
}

// only refuses callers whose certificate has another common name. Whether there must be
// one the server itself sees to: kubelet probes without.
func only(names []string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(names) > 0 && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
				if name := r.TLS.PeerCertificates[0].Subject.CommonName; !slices.Contains(names, name) {
					http.Error(w, fmt.Sprintf("%q may not call hooks", name), http.StatusForbidden)
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for hooks: %w", err)
	}
	s.serving.Store(true)
	defer s.serving.Store(false)
	return s.Hooks.Serve(ctx, listener)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Server) NeedLeaderElection() bool { return false }

// Check is a readiness check.
func (s *Server) Check(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the hooks are not served yet")
	}
	return nil
}
