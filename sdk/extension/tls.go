package extension

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/slipway-dev/slipway/sdk/internal/certs"
)

type tlsHandler = func(*http.Server, *tls.Conn, http.Handler)

// tlsSource makes the TLS configuration from files that may change.
type tlsSource struct {
	pair *certs.KeyPair
	pool *certs.Pool

	mu      sync.Mutex
	clients *x509.CertPool
	config  *tls.Config
}

// What the files of a server hold, as its log and its metrics call it.
const (
	servingCertificate = "serving"
	clientCA           = "client-ca"
)

// reloaded tells what became of a certificate whose files were replaced: once for
// each error, as the files are looked at every second while there are calls.
func (s *Server) reloaded(certificate string, r certs.Reload) {
	if r.Err == nil {
		s.metrics.reloads.WithLabelValues(certificate, "success").Inc()
		s.options.Logger.Info("A certificate was read again", "certificate", certificate)
		return
	}
	s.metrics.reloads.WithLabelValues(certificate, "error").Inc()
	if !r.Again {
		s.options.Logger.Error(r.Err, "A certificate cannot be read again, the one before stays in use", "certificate", certificate)
	}
}

// newTLSSource loads the files of o. observe is told when they were replaced.
func newTLSSource(o Options, observe func(certificate string, r certs.Reload)) (*tlsSource, error) {
	t := &tlsSource{}
	var err error
	if o.CertFile != "" {
		if t.pair, err = certs.NewKeyPair(o.CertFile, o.KeyFile, func(r certs.Reload) { observe(servingCertificate, r) }); err != nil {
			return nil, err
		}
	}
	if o.ClientCAFile != "" {
		if t.pool, err = certs.NewPool(o.ClientCAFile, func(r certs.Reload) { observe(clientCA, r) }); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *tlsSource) requireClient() bool { return t.pool != nil }

// trustKey is the key of a *trust in the context of a connection.
type trustKey struct{}

// trust is what is known about the caller of one connection.
type trust struct {
	// in is the bundle that the caller's certificate was verified with last.
	in atomic.Pointer[x509.CertPool]
}

// trusts tells whether the caller of r has a certificate of a current client CA. A
// connection outlives the bundle that it was made under, hence once per connection
// and bundle the certificate is verified again.
func (t *tlsSource) trusts(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return false
	}
	current := t.pool.Get()
	known, ok := r.Context().Value(trustKey{}).(*trust)
	if ok && known.in.Load() == current {
		return true
	}
	intermediates := x509.NewCertPool()
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: current, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil && ok {
		known.in.Store(current)
	}
	return err == nil
}

// configFor returns the configuration of one connection. A new client CA makes a
// new configuration and with it new keys for session tickets, so that no session
// of a caller with a revoked CA is resumed.
func (t *tlsSource) configFor(*tls.ClientHelloInfo) (*tls.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var clients *x509.CertPool
	if t.pool != nil {
		clients = t.pool.Get()
	}
	if t.config == nil || clients != t.clients {
		t.clients = clients
		t.config = &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
			// Small first records help browsers; here they would only be more writes.
			DynamicRecordSizingDisabled: true,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return t.pair.Get(), nil
			},
		}
		if clients != nil {
			// Handler demands the certificate, so that kubelet can probe without one.
			t.config.ClientCAs = clients
			t.config.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return t.config, nil
}

// TLSConfig returns the configuration that Serve uses, for servers of one's own.
// It follows changes of the files. It fails without CertFile.
func (s *Server) TLSConfig() (*tls.Config, error) {
	if s.tls.pair == nil {
		return nil, errors.New("extension: no serving certificate; set Options.CertFile and Options.KeyFile")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		GetConfigForClient: s.tls.configFor,
	}, nil
}
