package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// direct connects to whatever a client asks for.
func direct(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// start serves a proxy until stop, which returns what Serve did.
func start(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- (&serve.Proxy{Listener: l, Dial: dial}).Serve(ctx) }()
	t.Cleanup(cancel)
	return l.Addr().String(), func() error {
		cancel()
		return poll.Receive(t, "the proxy ends", served)
	}
}

// client is one as controllers have, behind the proxy.
func client(t *testing.T, server *httptest.Server, proxy string) *http.Client {
	t.Helper()
	c := server.Client()
	transport := c.Transport.(*http.Transport)
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

func TestProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()
	asked := ""
	address, stop := start(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = address
		return direct(ctx, network, address)
	})
	answer, err := client(t, server, address).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || string(body) != "hello" || asked != server.Listener.Addr().String() {
		t.Errorf("got %q, %v by way of %q", body, err, asked)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// What Go's clients tell of a proxy that refuses is the first line of its answer.
func TestProxyTellsWhy(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	address, _ := start(t, func(context.Context, string, string) (net.Conn, error) {
		return nil, fmt.Errorf("no route\r\nX: y")
	})
	_, err := client(t, server, address).Get(server.URL)
	if want := "connect to " + server.Listener.Addr().String() + " from the machine of the plane: no route  X: y"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Nothing but a tunnel: no request is passed on in the clear.
func TestProxyServesOnlyConnect(t *testing.T) {
	address, _ := start(t, func(context.Context, string, string) (net.Conn, error) {
		t.Error("connected")
		return nil, io.EOF
	})
	answer, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != http.MethodConnect {
		t.Errorf("GET: %s", answer.Status)
	}
}

// A tunnel that is open when the plane stops ends with it.
func TestProxyEndsTunnels(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		close(started)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	address, stop := start(t, direct)
	answer, err := client(t, server, address).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	<-started
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("the tunnel was left open")
	}
}

func TestRefuse(t *testing.T) {
	for address, refused := range map[string]bool{
		"192.0.2.10": false, "10.0.0.1": false, "2001:db8::1": false,
		"127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true, "::": true,
		"fd00:ec2::254": true, "fd20:ce::254": true, "168.63.129.16": true, "::ffff:168.63.129.16": true, "100.100.100.200": true, "192.0.0.192": true,
		"169.254.169.254": true, "64:ff9b::a9fe:a9fe": true, "2002:a9fe:a9fe::1": true, "0.1.2.3": true, "fd00:ec2::23": true, "fe80::1": true, "224.0.0.1": true, "10.88.0.1": true, "::ffff:10.88.0.11": true, "fd00:88::200": true,
	} {
		if err := serve.Refuse(netip.MustParseAddr(address)); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The machine may be behind a proxy of its own, in whatever spelling.
func TestUseProxy(t *testing.T) {
	inherit := func() {
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY"} {
			t.Setenv(name, "http://192.0.2.1:3128")
		}
	}
	for _, c := range []struct{ proxy, target, want string }{
		{"", "https://192.0.2.10:6443", ""},
		{"", "http://192.0.2.10", ""},
		{"127.0.0.1:9", "https://192.0.2.10:6443", "http://127.0.0.1:9"},
		{"127.0.0.1:9", "https://cluster.example:6443", "http://127.0.0.1:9"},
		{"127.0.0.1:9", "https://10.88.0.200:6443", ""},
		{"127.0.0.1:9", "https://[fd00:88::200]:6443", ""},
		{"127.0.0.1:9", "https://127.0.0.1:6443", ""},
		{"127.0.0.1:9", "http://192.0.2.10", ""},
	} {
		inherit()
		if err := serve.UseProxy(c.proxy); err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(c.target)
		if err != nil {
			t.Fatal(err)
		}
		got, err := httpproxy.FromEnvironment().ProxyFunc()(target)
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (c.want == "") || got != nil && got.String() != c.want {
			t.Errorf("with proxy %q %s goes by %v, want %q", c.proxy, c.target, got, c.want)
		}
		if os.Getenv("ALL_PROXY") != "" {
			t.Error("ALL_PROXY is left for curl and others")
		}
	}
}
