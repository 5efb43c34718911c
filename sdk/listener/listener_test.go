package listener

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestHandshakeEnds holds that a connection without a byte, and one that sends bytes for ever without an end of the
// handshake, are closed after HandshakeTimeout.
func TestHandshakeEnds(t *testing.T) {
	for name, drip := range map[string]bool{"silent": false, "dripping": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Options{}, tls.NoClientCert)
				began := time.Now()
				c := f.dial("192.0.2.1:1")
				var dripping sync.WaitGroup
				defer dripping.Wait()
				if drip {
					dripping.Go(func() {
						_, _ = c.Write([]byte{22, 3, 1, 1, 0}) // the header of a record of 256 bytes
						for {
							if _, err := c.Write([]byte{1}); err != nil {
								return
							}
							time.Sleep(time.Second / 10)
						}
					})
				}
				_, _ = io.Copy(io.Discard, c)
				if took := time.Since(began); took != HandshakeTimeout {
					t.Errorf("it was closed after %s", took)
				}
			})
		})
	}
}

// TestAnonymousConnectionsKeepNobodyOut has a client with a certificate beside a flood of silent connections of its
// own address and of others.
func TestAnonymousConnectionsKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Anonymous: 4, Identified: 4}, tls.RequireAndVerifyClientCert)
		known := f.connect("192.0.2.1:1", f.ca.sign("known"))
		f.echoes(known)
		for range 3 {
			f.dial("192.0.2.1:2")
			f.dial("192.0.2.2:2")
		}
		f.echoes(known)
		f.echoes(f.connect("192.0.2.1:3", f.ca.sign("another")))
		f.echoes(known)
	})
}

// TestIdentitiesShare holds that a client with a certificate has all connections while nobody else wants them, and
// no more than its share after that.
func TestIdentitiesShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Anonymous: 2, Identified: 3}, tls.RequireAndVerifyClientCert)
		greedy, modest := f.ca.sign("greedy"), f.ca.sign("modest")
		first, second, third := f.connect("192.0.2.1:1", greedy), f.connect("192.0.2.2:1", greedy), f.connect("192.0.2.3:1", greedy)
		time.Sleep(time.Millisecond) // from here on the second one is silent
		f.echoes(first)
		f.echoes(third)
		f.echoes(f.connect("192.0.2.1:2", modest))
		f.echoes(first)
		f.echoes(third)
		f.closed(second)
	})
}

// TestManyCertificatesAreOneClient holds that a client gets no more by asking its CA for one certificate after the other.
// One without a subject counts for itself.
func TestManyCertificatesAreOneClient(t *testing.T) {
	for name, test := range map[string]struct {
		greedy string
		stays  bool
	}{"of one subject": {"greedy", true}, "without a subject": {"", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, Options{Anonymous: 2, Identified: 3}, tls.RequireAndVerifyClientCert)
				modest := f.connect("192.0.2.1:1", f.ca.sign("modest"))
				for range 4 {
					time.Sleep(time.Millisecond)
					f.connect("192.0.2.2:1", f.ca.sign(test.greedy))
				}
				if test.stays {
					f.echoes(modest)
				} else {
					f.closed(modest)
				}
			})
		})
	}
}

// TestOnlyVerifiedCertificatesIdentify holds that a certificate which nobody verified, as any client can make one,
// counts for nothing.
func TestOnlyVerifiedCertificatesIdentify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Anonymous: 2, Identified: 9}, tls.RequestClientCert)
		stranger := newAuthority(t)
		first := f.connect("192.0.2.1:1", stranger.sign("a"))
		f.echoes(first)
		time.Sleep(time.Millisecond)
		f.echoes(f.connect("192.0.2.1:2", stranger.sign("b")))
		f.echoes(f.connect("192.0.2.1:3", stranger.sign("c")))
		f.closed(first)
	})
}

// TestResumedSessionsAreIdentified holds that a client which resumes a session, and sends no certificate for it, is
// counted for the one of the session.
func TestResumedSessionsAreIdentified(t *testing.T) {
	f := &fixture{t: t, ca: newAuthority(t)}
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, ok := NewTLS(inner, f.config(tls.RequireAndVerifyClientCert), Options{}).(*tlsListener)
	if !ok {
		t.Fatal("another type")
	}
	f.serve(l, func(http.ResponseWriter, *http.Request) {})
	config := &tls.Config{RootCAs: f.ca.pool, ServerName: "server", Certificates: []tls.Certificate{f.ca.sign("known")}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := range 2 {
		c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		f.get(c, "")
		if resumed := c.(*tls.Conn).ConnectionState().DidResume; resumed != (i == 1) {
			t.Errorf("connection %d: resumed: %t", i, resumed)
		}
		l.mu.Lock()
		if l.identified.size != i+1 || len(l.identified.byKey) != 1 {
			t.Errorf("connection %d: %d connections of %d identities", i, l.identified.size, len(l.identified.byKey))
		}
		l.mu.Unlock()
	}
}

// TestNobodyAccepts has more connections than the limit after their handshakes, while the server accepts none, and a
// Close: those that were closed keep no goroutine, and Close ends all of them, which the bubble checks.
func TestNobodyAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipes()
		f := &fixture{t: t, ca: newAuthority(t), inner: inner}
		l := NewTLS(inner, f.config(tls.RequireAndVerifyClientCert), Options{Anonymous: 2, Identified: 2})
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 20 {
			f.connect("192.0.2.1:1", f.ca.sign("known"))
		}
		if now := runtime.NumGoroutine(); now > before+2 {
			t.Errorf("%d goroutines for 2 connections", now-before)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v", err)
		}
		if got, want := inner.closes.Load(), int64(20); got != want {
			t.Errorf("%d calls of Close for %d connections", got, want)
		}
	})
}

// TestFailedHandshakesAreLogged has a client that goes, one that says nothing, and one that is closed for
// another one, which is no failure.
func TestFailedHandshakesAreLogged(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{Anonymous: 1, ErrorLog: log.New(&out, "", 0)}, tls.NoClientCert)
		if err := f.dial("192.0.2.1:1").Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		f.dial("192.0.2.1:2")
		f.dial("192.0.2.1:3")
		time.Sleep(2 * HandshakeTimeout)
		f.dial("192.0.2.1:4")
		synctest.Wait() // the end of the test closes the last one, too
		const want = "http: TLS handshake error from 192.0.2.1:1: EOF\nhttp: TLS handshake error from 192.0.2.1:3: context deadline exceeded\n"
		if got := out.String(); got != want {
			t.Errorf("got %s", got)
		}
	})
}

// TestErrorsOfTheInnerListener holds that the server sees errors, and decides whether to go on.
func TestErrorsOfTheInnerListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newPipes()
		f := &fixture{t: t, ca: newAuthority(t), inner: inner}
		l := NewTLS(inner, f.config(tls.NoClientCert), Options{})
		broken := errors.New("broken")
		for range 2 {
			go func() { inner.accepts <- accepted{err: broken} }()
			if _, err := l.Accept(); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestIdentify has a server without TLS that authenticates requests: their connections stay while others come. A
// request of another server is no error.
func TestIdentify(t *testing.T) {
	Identify(t.Context(), "nobody")
	synctest.Test(t, func(t *testing.T) {
		inner := newPipes()
		f := &fixture{t: t, inner: inner}
		f.serve(New(inner, Options{Anonymous: 2, Identified: 2}), func(w http.ResponseWriter, r *http.Request) {
			if user := r.Header.Get("User"); user != "" {
				Identify(r.Context(), user)
			}
		})
		identified, anonymous := f.dial("192.0.2.1:1"), f.dial("192.0.2.1:2")
		f.get(identified, "admin")
		f.get(identified, "another")
		f.get(anonymous, "")
		for range 2 {
			time.Sleep(time.Millisecond)
			f.get(f.dial("192.0.2.1:3"), "")
		}
		f.closed(anonymous)
		f.get(identified, "")
	})
}

// TestIdentifyAfterTheEnd has a request authenticated whose connection was closed meanwhile.
func TestIdentifyAfterTheEnd(t *testing.T) {
	_, server := net.Pipe()
	l := newListener(newPipes(), Options{})
	c := l.admit(server)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	l.identify(c, "user")
	if l.anonymous.size != 0 || l.identified.size != 0 {
		t.Errorf("%d and %d connections are counted", l.anonymous.size, l.identified.size)
	}
}

// TestAddressesShare names what counts as one address.
func TestAddressesShare(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "192.0.2.2:1": "192.0.2.2", "[::ffff:192.0.2.1]:2": "192.0.2.1",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::]:2": "2001:db8:1:2::/64", "[2001:db8:1:3::]:2": "2001:db8:1:3::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "",
	} {
		if got := addressOf(&pipe{from: address(remote)}); got != want {
			t.Errorf("%s: got %q, want %q", remote, got, want)
		}
	}
}

// address is one in words.
type address string

func (address) Network() string  { return "test" }
func (a address) String() string { return string(a) }

// TestHTTP2 holds that Serve of an http.Server without a TLS configuration of its own serves HTTP/2.
func TestHTTP2(t *testing.T) {
	f := &fixture{t: t, ca: newAuthority(t)}
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := f.config(tls.RequireAndVerifyClientCert)
	config.NextProtos = []string{"h2", "http/1.1"}
	f.serve(NewTLS(inner, config, Options{}), func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: f.ca.pool, ServerName: "server", Certificates: []tls.Certificate{f.ca.sign("known")}}}
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+inner.Addr().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || string(body) != "HTTP/2.0" {
		t.Errorf("%s, %v", body, err)
	}
}

// fixture is a server behind a listener.
type fixture struct {
	t     *testing.T
	ca    *authority
	inner *pipes
}

// newFixture serves what clients send back to them, over TLS.
func newFixture(t *testing.T, o Options, auth tls.ClientAuthType) *fixture {
	t.Helper()
	f := &fixture{t: t, ca: newAuthority(t), inner: newPipes()}
	l := NewTLS(f.inner, f.config(auth), o)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) config(auth tls.ClientAuthType) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{f.ca.sign("server")}, ClientAuth: auth, ClientCAs: f.ca.pool}
}

func (f *fixture) serve(l net.Listener, handler http.HandlerFunc) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	f.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			f.t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			f.t.Error(err)
		}
	})
}

// dial connects from an address.
func (f *fixture) dial(from string) net.Conn {
	f.t.Helper()
	c := f.inner.dial(net.TCPAddrFromAddrPort(mustAddrPort(f.t, from)))
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *fixture) connect(from string, certificate tls.Certificate) *tls.Conn {
	f.t.Helper()
	c := tls.Client(f.dial(from), &tls.Config{RootCAs: f.ca.pool, ServerName: "server", Certificates: []tls.Certificate{certificate}})
	if err := c.HandshakeContext(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
	return c
}

// echoes checks that a connection is served.
func (f *fixture) echoes(c net.Conn) {
	f.t.Helper()
	if _, err := io.WriteString(c, "hello"); err != nil {
		f.t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		f.t.Fatalf("got %q, %v", got, err)
	}
	synctest.Wait()
}

// closed checks that the server has closed a connection.
func (f *fixture) closed(c net.Conn) {
	f.t.Helper()
	synctest.Wait()
	_ = c.SetReadDeadline(time.Now().Add(1)) // a pipe that is closed has no deadlines
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Error("the connection is open")
	}
}

// get makes a request on a connection, by a user that the server believes.
func (f *fixture) get(c net.Conn, user string) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://server/", http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("User", user)
	if err := request.Write(c); err != nil {
		f.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), request)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
		f.t.Fatalf("%s, %v", response.Status, err)
	}
}
