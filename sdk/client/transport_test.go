package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/poll"
	"github.com/slipway-dev/slipway/sdk/registry"
)

func handles(s *extension.Server) error {
	return extension.Handle[req, resp](s, capi.BeforeClusterCreate, "h", succeed)
}

// noBackoff lets a test go on after an error that it provoked.
var noBackoff = client.Backoff{Initial: 1, Max: 1}

func discovered(ext *hooktest.Extension, ca []byte) *runtimev1.ExtensionConfig {
	return hooktest.Handler(hooktest.Config("ext", ext.URL, ca), capi.BeforeClusterCreate, "h", fail, 5)
}

// TestServingCertificateRotates replaces the certificate of a running extension and
// the CA bundle of its ExtensionConfig, as a renewal by cert-manager does.
func TestServingCertificateRotates(t *testing.T) {
	dir := t.TempDir()
	first, second := hooktest.NewCA(t), hooktest.NewCA(t)
	certFile, keyFile := first.Files(dir, "tls")
	ext := hooktest.Start(t, extension.Options{CertFile: certFile, KeyFile: keyFile}, handles)
	reg := registry.New(registry.Options{})
	c := newClient(t, client.Options{Registry: reg, Backoff: noBackoff}, discovered(ext, first.PEM))
	if _, err := create(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	// In between, the bundle has both, so that either certificate is trusted.
	if err := reg.Set(hooktest.Entry(t, discovered(ext, append(append([]byte{}, first.PEM...), second.PEM...)))); err != nil {
		t.Fatal(err)
	}
	second.Files(dir, "tls")
	poll.Until(t, "the new certificate is served", func() error {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(ext.URL, "https://"), &tls.Config{RootCAs: second.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12})
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if _, err := create(t.Context(), t, c); err != nil {
		t.Errorf("during the rotation: %v", err)
	}
	if err := reg.Set(hooktest.Entry(t, discovered(ext, second.PEM))); err != nil {
		t.Fatal(err)
	}
	if _, err := create(t.Context(), t, c); err != nil {
		t.Errorf("with the new CA alone: %v", err)
	}
	var callErr *client.CallError
	if _, err := create(t.Context(), t, newClient(t, client.Options{}, discovered(ext, first.PEM))); !errors.As(err, &callErr) || callErr.Reason != client.ReasonUnreachable {
		t.Errorf("with the old CA alone: %v, want the connection to be refused", err)
	}
}

// TestClientCertificateRotates changes the CA of the callers and the certificate of
// the caller. The connection that was made with the old one is not used again.
func TestClientCertificateRotates(t *testing.T) {
	dir := t.TempDir()
	first, second := hooktest.NewCA(t), hooktest.NewCA(t)
	caFile := filepath.Join(dir, "callers.crt")
	write := func(ca *hooktest.CA) {
		if err := os.WriteFile(caFile, ca.PEM, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	certFile, keyFile := first.Files(dir, "caller")
	ext := hooktest.Start(t, extension.Options{ClientCAFile: caFile}, handles)
	config := discovered(ext, ext.CA.PEM)
	var callErr *client.CallError
	if _, err := create(t.Context(), t, newClient(t, client.Options{}, config)); !errors.As(err, &callErr) || callErr.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a certificate: %v, want HTTP status 401", err)
	}
	c := newClient(t, client.Options{CertFile: certFile, KeyFile: keyFile, Backoff: noBackoff}, config)
	call := func() error { _, err := create(t.Context(), t, c); return err }
	if err := call(); err != nil {
		t.Fatal(err)
	}
	write(second)
	poll.Until(t, "a new caller of the old CA is refused", func() error {
		if _, err := create(t.Context(), t, newClient(t, client.Options{CertFile: certFile, KeyFile: keyFile}, config)); err == nil {
			return errors.New("it is served")
		}
		return nil
	})
	second.Files(dir, "caller")
	poll.Until(t, "the caller uses its new certificate", call)
}

// writeCounter counts what is written to a connection.
type writeCounter struct {
	net.Conn
	writes *atomic.Int32
}

func (c writeCounter) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestRequestIsOneWrite sends head and body of a request together: each piece would be
// a record of TLS, a system call on either side, and maybe a packet of its own.
func TestRequestIsOneWrite(t *testing.T) {
	ca := hooktest.NewCA(t)
	certFile, keyFile := ca.Files(t.TempDir(), "tls")
	ext := hooktest.Start(t, extension.Options{CertFile: certFile, KeyFile: keyFile}, handles)
	var writes atomic.Int32
	reg := registry.New(registry.Options{})
	c := newClient(t, client.Options{Registry: reg, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return writeCounter{Conn: conn, writes: &writes}, err
	}}, discovered(ext, ca.PEM))
	if _, err := create(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	fewest := int32(math.MaxInt32) // of several, since a busy machine may have a call made on a new connection
	for range 5 {
		before := writes.Load()
		if _, err := create(t.Context(), t, c); err != nil {
			t.Fatal(err)
		}
		fewest = min(fewest, writes.Load()-before)
	}
	if fewest != 1 {
		t.Errorf("a request on a connection that is there is written in %d pieces, want 1", fewest)
	}
}

// TestUntrustedIsRefused proves that neither side talks to a stranger, nor in an
// old version of TLS.
func TestUntrustedIsRefused(t *testing.T) {
	ext := hooktest.Start(t, extension.Options{}, handles)
	var callErr *client.CallError
	if _, err := create(t.Context(), t, newClient(t, client.Options{}, discovered(ext, hooktest.NewCA(t).PEM))); !errors.As(err, &callErr) || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("an unknown CA: %v", err)
	}
	old := &tls.Config{RootCAs: ext.CA.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // that it is refused is the test
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(ext.URL, "https://"), old); err == nil {
		_ = conn.Close()
		t.Error("the server speaks TLS 1.1")
	}
	legacy := httptest.NewUnstartedServer(http.NotFoundHandler())
	certificate, err := tls.X509KeyPair(ext.CA.Issue("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	legacy.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11} //nolint:gosec // that it is refused is the test
	legacy.StartTLS()
	defer legacy.Close()
	config := hooktest.Handler(hooktest.Config("ext", legacy.URL, ext.CA.PEM), capi.BeforeClusterCreate, "h", fail, 5)
	if _, err := create(t.Context(), t, newClient(t, client.Options{}, config)); !errors.As(err, &callErr) || callErr.Reason != client.ReasonUnreachable {
		t.Errorf("a server with TLS 1.1: %v", err)
	}
}

// TestRestartedServer stops an extension and starts it again at the same address:
// the kept connections are of no use, and no call is lost once the client has seen
// their end. A call that is written before that may be lost: no transport can know.
func TestRestartedServer(t *testing.T) {
	dir := t.TempDir()
	ca := hooktest.NewCA(t)
	certFile, keyFile := ca.Files(dir, "tls")
	options := extension.Options{CertFile: certFile, KeyFile: keyFile}
	ext := hooktest.Start(t, options, handles)
	conns := make(watchedConns, 16)
	c := newClient(t, client.Options{Backoff: noBackoff, DialContext: conns.dial}, discovered(ext, ca.PEM))
	options.Address = strings.TrimPrefix(ext.URL, "https://")
	for rounds, kept := 0, 0; kept < 3; rounds++ {
		if rounds == 20 {
			t.Fatalf("the second call used the connection of the first in %d of %d rounds", kept, rounds)
		}
		for range 2 {
			if _, err := create(t.Context(), t, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := ext.Stop(); err != nil {
			t.Fatal(err)
		}
		if len(conns) == 1 { // not where a writer was slow: see awaitClosed
			kept++
		}
		conns.awaitClosed(t)
		ext = hooktest.Start(t, options, handles)
	}
}

// TestNothingIsSentTwice lets an extension close the connection after it has read a
// request: the call fails, and the extension has seen it once.
func TestNothingIsSentTwice(t *testing.T) {
	f, c := faulty(t, fail, 5, hooktest.Body(`{"status":"Success"}`))
	if _, err := create(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	before := f.Requests()
	f.Set(hooktest.Drop())
	if _, err := create(t.Context(), t, c); err == nil {
		t.Fatal("the call succeeded")
	}
	if n := f.Requests() - before; n != 1 {
		t.Errorf("the extension got %d requests, want 1", n)
	}
}

// TestNoProxyFromTheEnvironment would fail if calls went to the proxy.
func TestNoProxyFromTheEnvironment(t *testing.T) {
	var proxied atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	ext := hooktest.Start(t, extension.Options{}, handles)
	// net/http never asks a proxy for loopback; a name that is none shows it.
	config := hooktest.Handler(hooktest.Config("ext", strings.Replace(ext.URL, "127.0.0.1", "server", 1), ext.CA.PEM), capi.BeforeClusterCreate, "h", fail, 5)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(ext.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, client.Options{DialContext: dialInstead("server:"+port, "127.0.0.1:"+port)}, config)
	if _, err := create(t.Context(), t, c); err != nil {
		t.Error(err)
	}
	if proxied.Load() != 0 {
		t.Error("the call went to the proxy of the environment")
	}
}

// The same address has many spellings, and an address of IPv4 is within several networks of IPv6.
func TestRefuseLinkLocal(t *testing.T) {
	for address, refused := range map[string]bool{
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "fe80::1%eth0": true, "fe80::a9fe:a9fe": true, "169.254.170.2": true, "169.254.170.23": true,
		"fd00:ec2::254": true, "fd00:ec2::23": true, "fd20:ce::254": true, "fd00:42::42": true, "168.63.129.16": true, "::ffff:168.63.129.16": true,
		"100.100.100.200": true, "192.0.0.192": true, "0.0.0.0": true, "0.1.2.3": true, "::ffff:0.0.0.1": true, "::": true, "255.255.255.255": true,
		"224.0.0.1": true, "ff02::1": true,
		"64:ff9b::a9fe:a9fe": true, "64:ff9b::a83f:8110": true, "64:ff9b:1::a9fe:a9fe": true, "64:ff9b:1:2:3:4:a9fe:a9fe": true, "2002:a9fe:a9fe::1": true,
		"::169.254.169.254": true, "::ffff:0:169.254.169.254": true, "64:ff9b:1:a9fe:a9:fe00::": true, "64:ff9b:1:a9:fe:a9fe::": true, "64:ff9b:1:0:a9:fea9:fe00:0": true,
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.0.2.10": false, "2001:db8::1": false, "64:ff9b::c000:20a": false, "64:ff9b:1::c000:20a": false, "64:ff9b:1:c000:2:a00::": false,
		"2002:c000:20a::1": false, "::192.0.2.10": false, "fd00:ec3::254": false, "fd00:88::200": false, "168.63.129.17": false,
	} {
		if err := client.RefuseLinkLocal(netip.MustParseAddr(address)); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestForbiddenAddresses are those of metadata services and alike, also behind a
// name, since the address is judged when it is dialled.
func TestForbiddenAddresses(t *testing.T) {
	for _, url := range []string{"https://169.254.169.254", "https://[fe80::1]", "https://[::ffff:169.254.169.254]", "https://0.0.0.0:443", "https://[ff02::1]",
		"https://[fd00:ec2::254]", "https://[fd20:ce::254]", "https://168.63.129.16", "https://100.100.100.200", "https://192.0.0.192", "https://[64:ff9b::a9fe:a9fe]"} {
		config := hooktest.Handler(hooktest.Config("ext", url, hooktest.NewCA(t).PEM), capi.BeforeClusterCreate, "h", fail, 5)
		if _, err := create(t.Context(), t, newClient(t, client.Options{}, config)); err == nil || !strings.Contains(errorText(err), "must not have the address") {
			t.Errorf("%s: %v", url, errorText(err))
		}
	}
	ext := hooktest.Start(t, extension.Options{}, handles)
	named := hooktest.Handler(hooktest.Config("ext", strings.Replace(ext.URL, "127.0.0.1", "localhost", 1), ext.CA.PEM), capi.BeforeClusterCreate, "h", fail, 5)
	c := newClient(t, client.Options{AllowAddress: func(a netip.Addr) error {
		if a.IsLoopback() {
			return errors.New("loopback must not have the address")
		}
		return nil
	}}, named)
	if _, err := create(t.Context(), t, c); err == nil || !strings.Contains(errorText(err), "must not have the address") {
		t.Errorf("a name that leads to a forbidden address: %v", errorText(err))
	}
}

// errorText is the text of an error and of what it wraps.
func errorText(err error) string {
	var text strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		text.WriteString(err.Error() + "\n")
	}
	return text.String()
}
