package bundleserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/slipway-dev/slipway/sdk/listener"
)

const (
	// idle ends connections that ask for nothing: with a thousand hosts they add up.
	idle = 15 * time.Second
	// shutdown is how long downloads under way may go on when the server ends. The
	// clients go on elsewhere, or later, where they were.
	shutdown = 5 * time.Second
)

// connections bounds those of hosts, and of clients without the certificate of one, at each address of the server.
var connections = listener.Options{Anonymous: 1024, Identified: 512}

// Options of a server.
type Options struct {
	// Dir holds the bundles, as hostbundle.Store writes them. Nothing is served when empty.
	Dir string
	// Address to listen on, such as ":9445".
	Address string
	// Listeners are taken instead of Address.
	Listeners []net.Listener
	// CertFile and KeyFile are the server's, CAFile what signed them. They are read again when they
	// change. The CA is sent along, so that hosts which know its digest alone can verify.
	CertFile, KeyFile, CAFile string
	// ClientCAFile holds the CA that signs the certificates of agents: the client CA of the API server.
	ClientCAFile string
	// URL is what hosts are told, such as https://192.0.2.10:9445. Without a host it is at the
	// address by which they reach the API server.
	URL string
	// Downloads at once, and those of one host among them.
	Downloads, DownloadsOfHost int
}

// DefaultOptions serve nothing. The CA of agents is the one that signs the API server's own
// certificate, too, which every pod has; so it is in most clusters.
func DefaultOptions() Options {
	const certificates = "/tmp/host-bundle-server/serving-certs/"
	return Options{
		Address: ":9445", CertFile: certificates + "tls.crt", KeyFile: certificates + "tls.key", CAFile: certificates + "ca.crt",
		ClientCAFile: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", Downloads: 32, DownloadsOfHost: 2,
	}
}

// Validate says which option is wrong.
func (o Options) Validate() error {
	if o.Dir == "" {
		return nil
	}
	if u, err := url.Parse(o.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return fmt.Errorf("--host-bundle-url %q: want what hosts reach the bundles by, such as https://192.0.2.10:9445", o.URL)
	}
	if o.Downloads < 1 || o.DownloadsOfHost < 1 {
		return fmt.Errorf("--host-bundle-downloads %d: want at least 1", o.Downloads)
	}
	return nil
}

// CAHash is the digest of the public key of the server's CA, as kubeadm writes it, which
// hosts are told besides the URL; empty without a CA of its own.
func (o Options) CAHash() (string, error) {
	data, err := os.ReadFile(o.CAFile)
	if o.CAFile == "" || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return "", fmt.Errorf("%s holds no certificate", o.CAFile)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", o.CAFile, err)
	}
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Server serves the bundles of a directory in every replica of a manager.
type Server struct {
	options Options
	handler *handler
	log     logr.Logger
}

// New makes a server for the hosts; it fails when an option is wrong.
func New(o Options, hosts Hosts, log logr.Logger) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	l := &limits{all: o.Downloads, each: o.DownloadsOfHost}
	return &Server{options: o, log: log, handler: &handler{hosts: hosts, shelf: &shelf{dir: dir, log: log}, limits: l, metrics: newMetrics(l), log: log}}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	config, err := s.tls(ctx)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	server := &http.Server{
		Handler:           s.handler.mux(),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: idle, MaxHeaderBytes: 16 << 10,
		// Failed handshakes are of whoever scans the port.
		ErrorLog: log.New(io.Discard, "", 0),
		// HTTP/2 keeps buffers for each stream, and one connection of it has many.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		s.log.Info("Serving host bundles", "address", l.Addr().String(), "directory", s.options.Dir)
		go func() { ended <- server.Serve(listener.NewTLS(l, config, connections)) }()
	}
	select {
	case <-ctx.Done():
	case err := <-ended:
		return errors.Join(fmt.Errorf("serve host bundles: %w", err), server.Close())
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	if err := server.Shutdown(patience); err != nil {
		return server.Close()
	}
	return nil
}

func (s *Server) listen(ctx context.Context) ([]net.Listener, error) {
	if len(s.options.Listeners) > 0 {
		return s.options.Listeners, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for hosts that fetch bundles: %w", err)
	}
	return []net.Listener{l}, nil
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// tls demands the certificate of an agent before anything else is said.
func (s *Server) tls(ctx context.Context) (*tls.Config, error) {
	clients, err := os.ReadFile(s.options.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("the CA of the agents' certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(clients) {
		return nil, fmt.Errorf("%s holds no CA of agents' certificates", s.options.ClientCAFile)
	}
	watcher, err := certwatcher.New(s.options.CertFile, s.options.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate of the server of host bundles: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.log.Error(err, "Cannot follow the certificate of the server of host bundles")
		}
	}()
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			own, err := watcher.GetCertificate(hello)
			if err != nil {
				return nil, err
			}
			return withCA(own, s.options.CAFile), nil
		},
	}, nil
}

// withCA sends the CA along. Without it hosts that trust it anyway can still verify.
func withCA(own *tls.Certificate, file string) *tls.Certificate {
	data, err := os.ReadFile(file)
	if err != nil {
		return own
	}
	block, _ := pem.Decode(data)
	if block == nil || bytes.Equal(block.Bytes, own.Certificate[len(own.Certificate)-1]) {
		return own
	}
	with := *own
	with.Certificate = slices.Concat(own.Certificate, [][]byte{block.Bytes})
	return &with
}
