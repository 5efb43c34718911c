package h1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/sdk/internal/h1"
)

// peer is a server that counts its connections.
type peer struct {
	*httptest.Server
	connections atomic.Int64
}

func start(t *testing.T, handler http.HandlerFunc) *peer {
	t.Helper()
	p := &peer{Server: httptest.NewUnstartedServer(handler)}
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.connections.Add(1)
		}
	}
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func transport(t *testing.T, address string, ca *x509.Certificate) *h1.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	c := h1.New(h1.Options{
		Address: address, Dial: (&net.Dialer{}).DialContext, TLS: &tls.Config{RootCAs: pool, ServerName: "example.com", MinVersion: tls.VersionTLS12},
		MaxConns: 4, MaxIdle: 2, HandshakeTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 4 << 10,
	})
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func of(t *testing.T, p *peer) *h1.Transport {
	return transport(t, p.Listener.Addr().String(), p.Certificate())
}

func post(ctx context.Context, c *h1.Transport, body string) (int, string, error) {
	r := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "example.com", Path: "/a b/c", RawQuery: "timeout=10s"},
		Header: http.Header{"X-Test": {"yes"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	response, err := c.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func TestRequestArrivesAndConnectionIsReused(t *testing.T) {
	p := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprint(w, r.Method, r.Host, r.URL.Path, r.URL.RawQuery, r.Header.Get("X-Test"), len(body))
	})
	c := of(t, p)
	for _, size := range []int{0, 1, 4000, 20_000, 70_000, 3_000_000} {
		code, got, err := post(t.Context(), c, strings.Repeat("x", size))
		if want := fmt.Sprint("POSTexample.com/a b/ctimeout=10syes", size); err != nil || code != http.StatusOK || got != want {
			t.Fatalf("got %d %q, %v, want %q", code, got, err, want)
		}
	}
	if n := p.connections.Load(); n != 1 {
		t.Errorf("%d connections for requests one after the other, want 1", n)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	var running, most atomic.Int64
	p := start(t, func(http.ResponseWriter, *http.Request) {
		n := running.Add(1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		running.Add(-1)
	})
	c := of(t, p)
	var callers sync.WaitGroup
	for range 40 {
		callers.Go(func() {
			if _, _, err := post(t.Context(), c, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if most.Load() > 4 {
		t.Errorf("%d requests at a time, want at most 4", most.Load())
	}
}

// TestClosedIdleConnection proves that a restart of the peer costs no request.
func TestClosedIdleConnection(t *testing.T) {
	p := start(t, func(http.ResponseWriter, *http.Request) {})
	c := of(t, p)
	for range 3 {
		if _, _, err := post(t.Context(), c, "x"); err != nil {
			t.Fatal(err)
		}
		p.CloseClientConnections()
	}
	if n := p.connections.Load(); n != 3 {
		t.Errorf("%d connections, want a new one after each closing", n)
	}
}

func TestCloseIdleConnectionsReplacesThoseInUse(t *testing.T) {
	release := make(chan struct{})
	p := start(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 4 {
			<-release
		}
	})
	c := of(t, p)
	done := make(chan error)
	go func() { _, _, err := post(t.Context(), c, "slow"); done <- err }()
	for p.connections.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	c.CloseIdleConnections()
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, _, err := post(t.Context(), c, "x"); err != nil {
		t.Fatal(err)
	}
	if n := p.connections.Load(); n != 2 {
		t.Errorf("%d connections, want that of the first request not to be used again", n)
	}
}

func TestContextEndsTheRequest(t *testing.T) {
	hang := make(chan struct{})
	p := start(t, func(http.ResponseWriter, *http.Request) { <-hang })
	defer close(hang)
	for _, size := range []int{1, 3_000_000} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err := post(ctx, of(t, p), strings.Repeat("x", size))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes: got %v, want the deadline", size, err)
		}
	}
}

// TestEarlyAnswer proves that the answer of a peer that refuses a large request
// without reading it arrives.
func TestEarlyAnswer(t *testing.T) {
	p := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = w.Write([]byte("too large"))
	})
	code, got, err := post(t.Context(), of(t, p), strings.Repeat("x", 20_000_000))
	if err != nil || code != http.StatusRequestEntityTooLarge || got != "too large" {
		t.Errorf("got %d %q, %v", code, got, err)
	}
}

// TestRawAnswers reads what peers should not send.
func TestRawAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	tests := map[string]struct {
		answer string
		code   int
		fails  bool
	}{
		"informational":       {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, 200, false},
		"only informational":  {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100) + ok, 0, true},
		"endless header":      {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", 0, true},
		"many headers":        {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: a\r\n", 1<<16) + "\r\n", 0, true},
		"not HTTP":            {"hello\r\n", 0, true},
		"nothing":             {"", 0, true},
		"truncated":           {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok", 0, true},
		"chunked":             {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, false},
		"until it is closed":  {"HTTP/1.1 200 OK\r\n\r\nok", 200, false},
		"more than announced": {ok + "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsmuggle", 200, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			certificate := httptest.NewTLSServer(nil)
			defer certificate.Close()
			listener, err := tls.Listen("tcp", "127.0.0.1:0", certificate.TLS)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			closed := make(chan struct{}, 2)
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						_, _ = io.Copy(io.Discard, r.Body)
						_, _ = conn.Write([]byte(tt.answer))
					}
					_ = conn.Close()
					closed <- struct{}{}
				}
			}()
			c := transport(t, listener.Addr().String(), certificate.Certificate())
			for range 2 {
				code, got, err := post(t.Context(), c, "x")
				if tt.fails != (err != nil) || !tt.fails && (code != tt.code || got != "ok") {
					t.Errorf("got %d %q, %v", code, got, err)
				}
				<-closed
			}
		})
	}
}

func TestUnknownLengthIsRefused(t *testing.T) {
	p := start(t, func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest(http.MethodPost, "https://example.com/", io.MultiReader(bytes.NewReader([]byte("x"))))
	if response, err := of(t, p).RoundTrip(r); err == nil {
		_ = response.Body.Close()
		t.Error("a request of unknown length was sent")
	}
}
