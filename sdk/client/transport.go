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
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/lru"

	"github.com/slipway-dev/slipway/sdk/internal/certs"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// refused are, besides link-local addresses, those at which clouds serve metadata and credentials to a
// machine alone: of Amazon, where pods get credentials as well, Google and Scaleway by IPv6, of Azure, of Alibaba
// and of Oracle; and those of this network and of all machines, which are no endpoint's.
var refused = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::254/128"), netip.MustParsePrefix("fd00:42::42/128"),
	netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("192.0.0.192/32"),
	thisNetwork, netip.MustParsePrefix("255.255.255.255/32"),
}

var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// embedding are networks whose addresses have one of IPv4 in these bytes, which a router may translate to: NAT64 of
// RFC 6052 and 8215, for each length of a prefix, 6to4, and addresses of IPv4 in IPv6 of RFC 4291 and 2765.
var embedding = []struct {
	network netip.Prefix
	at      [4]int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), [4]int{12, 13, 14, 15}}, {netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}}, {netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}}, {netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}},
	{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}}, {netip.MustParsePrefix("::ffff:0:0:0/96"), [4]int{12, 13, 14, 15}},
}

// RefuseLinkLocal is the default of Options.AllowAddress. It refuses what no endpoint that a user
// names may have: link-local, multicast, broadcast and unspecified addresses, and the others at which clouds
// serve metadata, also within an address of IPv6, as behind NAT64. A program that sets DialContext has to call it, or something
// stricter, for the address after name resolution.
func RefuseLinkLocal(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	if address.IsLoopback() {
		return nil
	}
	for _, e := range embedding {
		bytes := address.As16()
		within := netip.AddrFrom4([4]byte{bytes[e.at[0]], bytes[e.at[1]], bytes[e.at[2]], bytes[e.at[3]]})
		if e.network.Contains(address) && !thisNetwork.Contains(within) {
			if err := RefuseLinkLocal(within); err != nil {
				return err
			}
		}
	}
	isRefused := slices.ContainsFunc(refused, func(network netip.Prefix) bool { return network.Contains(address) })
	if address.IsLinkLocalUnicast() || address.IsMulticast() || address.IsUnspecified() || isRefused {
		return fmt.Errorf("an endpoint must not have the address %s", address)
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
	http.RoundTripper
	base *http.Transport
}

// closeIdle closes the connections that are not in use.
func (e *transportEntry) closeIdle() {
	e.base.CloseIdleConnections()
	if own, ok := e.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		own.CloseIdleConnections()
	}
}

// transports pools connections by extension. A new CA bundle makes a new transport,
// a new client certificate makes all of them new.
type transports struct {
	options *Options
	metrics *metrics
	pair    *certs.KeyPair

	mu      sync.Mutex
	entries *lru.Cache
}

func newTransports(o *Options, m *metrics) (*transports, error) {
	closeIdle := func(_ lru.Key, entry any) { entry.(*transportEntry).closeIdle() }
	t := &transports{options: o, metrics: m, entries: lru.NewWithEvictionFunc(maxTransports, closeIdle)}
	if o.CertFile != "" {
		pair, err := certs.NewKeyPair(o.CertFile, o.KeyFile, t.reloaded)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		t.pair = pair
	}
	return t, nil
}

// get returns the transport for calls of a registration.
func (t *transports) get(r *registry.Registration) (http.RoundTripper, error) {
	if t.pair != nil {
		// Looks at the files at most once a second; a change makes new transports.
		t.pair.Get()
	}
	key := transportKey{host: r.URL.Host, ca: sha256.Sum256(r.CABundle)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.entries.Get(key); ok {
		return known.(*transportEntry).RoundTripper, nil
	}
	base, err := t.build(r.CABundle)
	if err != nil {
		return nil, &CallError{Reason: ReasonUnreachable, Err: err, message: err.Error()}
	}
	entry := &transportEntry{base: base, RoundTripper: base}
	if t.options.Transport != nil {
		entry.RoundTripper = t.options.Transport(base)
	}
	t.entries.Add(key, entry)
	return entry.RoundTripper, nil
}

// reloaded makes new connections with a new client certificate.
func (t *transports) reloaded(r certs.Reload) {
	result := "error"
	if r.Err == nil {
		result = "success"
		t.entries.Clear()
	}
	t.metrics.reloads.WithLabelValues(result).Inc()
	if t.options.OnReload != nil && !r.Again {
		t.options.OnReload(r.Err)
	}
}

// CloseIdleConnections closes the connections that no call uses, as http.Client does.
// The client can go on being used.
func (c *Client) CloseIdleConnections() { c.transports.entries.Clear() }

// build returns a transport to one extension. Connections are reused, and what may
// be on them is judged, by net/http. No proxy, no redirects, no compression: a call
// goes to the address of the extension as it is, or fails.
func (t *transports) build(ca []byte) (*http.Transport, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
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
	return &http.Transport{
		DialContext:            t.dialContext(),
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxConnsPerHost:        256,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// A record of TLS: a short request is one write.
		WriteBufferSize:    16 << 10,
		ReadBufferSize:     16 << 10,
		DisableCompression: true,
		ForceAttemptHTTP2:  true,
		// Finds out about a connection that died without a word.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}, nil
}

func (t *transports) dialContext() func(context.Context, string, string) (net.Conn, error) {
	if own := t.options.DialContext; own != nil {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := own(ctx, network, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		}
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
