package client

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/sdk/internal/certs"
	"github.com/slipway-dev/slipway/sdk/internal/h1"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// RefuseLinkLocal is the default of Options.AllowAddress. Who sets DialContext has
// to call it, or what is stricter, for the address after name resolution.
func RefuseLinkLocal(address netip.Addr) error {
	address = address.Unmap()
	if address.IsLinkLocalUnicast() || address.IsMulticast() || address.IsUnspecified() {
		return fmt.Errorf("an extension must not have the address %s", address)
	}
	return nil
}

// maxTransports bounds the transports that are kept. Each extension needs one.
const maxTransports = 512

// transportKey is what the connections of a transport have in common.
type transportKey struct {
	host string
	ca   [sha256.Size]byte
}

type transportEntry struct {
	base *h1.Transport
	http.RoundTripper
	used time.Time
}

// transports pools connections by extension. A new CA bundle makes a new
// transport, a new client certificate closes idle connections.
type transports struct {
	options *Options
	pair    *certs.KeyPair

	mu      sync.Mutex
	entries map[transportKey]*transportEntry
}

func newTransports(o *Options) (*transports, error) {
	t := &transports{options: o, entries: map[transportKey]*transportEntry{}}
	if o.CertFile != "" {
		pair, err := certs.NewKeyPair(o.CertFile, o.KeyFile, t.closeIdle)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		t.pair = pair
	}
	return t, nil
}

// get returns the transport for calls of u that trusts ca.
func (t *transports) get(u *url.URL, ca []byte) (http.RoundTripper, error) {
	if t.pair != nil {
		// Looks at the files at most once a second; a change closes idle connections.
		t.pair.Get()
	}
	key := transportKey{host: u.Host, ca: sha256.Sum256(ca)}
	t.mu.Lock()
	defer t.mu.Unlock()
	entry, ok := t.entries[key]
	if !ok {
		base, err := t.build(u, ca)
		if err != nil {
			return nil, err
		}
		entry = &transportEntry{base: base, RoundTripper: base}
		if t.options.WrapTransport != nil {
			entry.RoundTripper = t.options.WrapTransport(base)
		}
		t.evict()
		t.entries[key] = entry
	}
	entry.used = t.options.Now()
	return entry.RoundTripper, nil
}

// evict makes room for one more entry.
func (t *transports) evict() {
	if len(t.entries) < maxTransports {
		return
	}
	var oldest transportKey
	var found *transportEntry
	for key, entry := range t.entries {
		if found == nil || entry.used.Before(found.used) {
			oldest, found = key, entry
		}
	}
	found.base.CloseIdleConnections()
	delete(t.entries, oldest)
}

func (t *transports) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, entry := range t.entries {
		entry.base.CloseIdleConnections()
	}
}

func (t *transports) build(u *url.URL, ca []byte) (*h1.Transport, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: u.Hostname(), NextProtos: []string{"http/1.1"},
		// Small first records help browsers; here they would only be more writes.
		DynamicRecordSizingDisabled: true,
	}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the caBundle holds no certificate in PEM form")
		}
	}
	if t.pair != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return t.pair.Get(), nil
		}
	}
	// No proxy, no redirects, no compression, no HTTP/2: a call goes to the
	// address of the extension as it is, or fails.
	return h1.New(h1.Options{
		Address:          addressOf(u),
		Dial:             t.dialContext(),
		TLS:              config,
		MaxConns:         256,
		MaxIdle:          64,
		HandshakeTimeout: 10 * time.Second,
		IdleTimeout:      90 * time.Second,
		MaxHeaderBytes:   64 << 10,
	}), nil
}

// addressOf returns the host and port of an https URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (t *transports) dialContext() func(context.Context, string, string) (net.Conn, error) {
	if t.options.DialContext != nil {
		return t.options.DialContext
	}
	dialer := &net.Dialer{
		Timeout:   5 * time.Second,
		KeepAlive: 30 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			resolved, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return t.options.AllowAddress(resolved.Addr())
		},
	}
	return dialer.DialContext
}

// roundTripper returns the transport for a registration.
func (t *transports) roundTripper(r *registry.Registration) (http.RoundTripper, error) {
	return t.get(r.URL, r.CABundle)
}
