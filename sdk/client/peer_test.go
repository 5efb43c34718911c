package client_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/internal/level"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// peer answers on the wire as a test wants, which no HTTP server would do.
type peer struct {
	ca  *hooktest.CA
	url string
}

// startPeer serves each TLS connection with serve, in HTTP/1.1.
func startPeer(t *testing.T, serve func(conn *tls.Conn)) *peer {
	t.Helper()
	ca := hooktest.NewCA(t)
	pair, err := tls.X509KeyPair(ca.Issue("peer"))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	listener := tls.NewListener(heldListener{inner}, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*tls.Conn))
			}()
		}
	}()
	return &peer{ca: ca, url: "https://" + listener.Addr().String()}
}

// heldConn can hold what is written, to send it in one piece.
type heldConn struct {
	*net.TCPConn
	held *bytes.Buffer
}

func (c *heldConn) Write(p []byte) (int, error) {
	if c.held != nil {
		return c.held.Write(p)
	}
	return c.TCPConn.Write(p)
}

// together sends in one piece what write writes.
func together(conn *tls.Conn, write func()) {
	c := conn.NetConn().(*heldConn)
	c.held = &bytes.Buffer{}
	write()
	_ = c.SetWriteDeadline(time.Time{}) // CloseWrite lets no more be written
	_, _ = c.TCPConn.Write(c.held.Bytes())
	c.held = nil
}

// heldListener accepts heldConns.
type heldListener struct{ net.Listener }

func (l heldListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &heldConn{TCPConn: conn.(*net.TCPConn)}, nil
}

// at returns the registration of a handler at path.
func (p *peer) at(t *testing.T, path string) *registry.Registration {
	t.Helper()
	u, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = path
	return &registry.Registration{Name: "h.peer", URL: u, CABundle: p.ca.PEM, Timeout: 30 * time.Second}
}

// answer is a whole answer with body.
func answer(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// carriers are the transports that every test of this file holds for.
var carriers = map[string]func(*http.Transport) http.RoundTripper{
	"default": nil,
	"own":     func(base *http.Transport) http.RoundTripper { return &counted{RoundTripper: base} },
}

// counted is a transport of a caller's own.
type counted struct {
	http.RoundTripper
	calls atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

func eachCarrier(t *testing.T, test func(t *testing.T, c *client.Client, conns watchedConns)) {
	for name, carrier := range carriers {
		t.Run(name, func(t *testing.T) {
			conns := make(watchedConns, 1000)
			test(t, newClient(t, client.Options{Transport: carrier, DialContext: conns.dial}), conns)
		})
	}
}

// greedy serves a connection and sends, for a request of /greedy, one answer too many
// in the way of extra.
func greedy(extra func(conn io.Writer, text, id string)) func(*tls.Conn) {
	return func(conn *tls.Conn) {
		for reader := bufio.NewReader(conn); ; {
			r, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if id := r.Header.Get(hook.RequestIDHeader); r.URL.Path != "/greedy" {
				_, _ = io.WriteString(conn, identified("victim", id))
			} else {
				extra(conn, "greedy", id)
			}
		}
	}
}

// identified is an answer that repeats the ID of its request.
func identified(body, id string) string {
	return strings.Replace(answer(body), "\r\n\r\n", "\r\n"+hook.RequestIDHeader+": "+id+"\r\n\r\n", 1)
}

// TestNoCallGetsAnothersAnswer talks to a peer that sends one answer too many, and
// that does not repeat IDs, while the connection is idle. The client closes the
// connection, unasked, and the next call gets its own answer.
func TestNoCallGetsAnothersAnswer(t *testing.T) {
	for name, extra := range map[string]func(conn io.Writer, text, id string){
		"in the same record": func(conn io.Writer, text, _ string) { _, _ = io.WriteString(conn, answer(text)+answer("extra")) },
		"in a record of its own": func(conn io.Writer, text, _ string) {
			_, _ = io.WriteString(conn, answer(text))
			_, _ = io.WriteString(conn, answer("extra"))
		},
		"later": func(conn io.Writer, text, _ string) {
			_, _ = io.WriteString(conn, answer(text))
			time.Sleep(2 * time.Millisecond)
			_, _ = io.WriteString(conn, answer("extra"))
		},
		"half of one": func(conn io.Writer, text, _ string) {
			_, _ = io.WriteString(conn, answer(text))
			_, _ = io.WriteString(conn, answer("extra")[:30])
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c *client.Client, conns watchedConns) {
				p := startPeer(t, greedy(extra))
				for range 50 {
					if _, got, err := c.Exchange(t.Context(), p.at(t, "/greedy"), nil); err != nil || string(got) != "greedy" {
						t.Fatalf("got %q, %v", got, err)
					}
					conns.awaitClosed(t)
					if _, got, err := c.Exchange(t.Context(), p.at(t, "/victim"), nil); err != nil || string(got) != "victim" {
						t.Fatalf("a call got %q, %v", got, err)
					}
				}
			})
		})
	}
}

// TestRepeatedIDsLeaveNoRace lets the answer too many race with the next call. No
// transport can tell that it is not the answer; the ID does.
func TestRepeatedIDsLeaveNoRace(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c *client.Client, _ watchedConns) {
		p := startPeer(t, greedy(func(conn io.Writer, text, id string) {
			_, _ = io.WriteString(conn, identified(text, id))
			time.Sleep(200 * time.Microsecond)
			_, _ = io.WriteString(conn, identified("extra", id))
		}))
		refused := 0
		for range 300 {
			if _, got, err := c.Exchange(t.Context(), p.at(t, "/greedy"), nil); err == nil && string(got) != "greedy" {
				t.Fatalf("got %q", got)
			}
			_, got, err := c.Exchange(t.Context(), p.at(t, "/victim"), nil)
			var callErr *client.CallError
			switch {
			case err == nil && string(got) != "victim":
				t.Fatalf("a call got %q, the answer of another one", got)
			case errors.As(err, &callErr) && strings.Contains(err.Error(), "another request"):
				refused++
			}
		}
		if refused == 0 {
			t.Error("no answer came in the wrong place: nothing was proved")
		}
		t.Logf("%d of 300 answers came in the wrong place", refused)
	})
}

// TestClosingPeers end the connection in all the ways there are. The client closes its
// end, and no call that comes after it is lost.
func TestClosingPeers(t *testing.T) {
	const later = 100 * time.Millisecond
	say := func(c *tls.Conn) { _, _ = io.WriteString(c, answer("ok")) }
	for name, answerAndEnd := range map[string]func(*tls.Conn){
		"close_notify in the segment of the answer": func(c *tls.Conn) {
			together(c, func() { say(c); _ = c.CloseWrite() })
			time.Sleep(later)
		},
		"close_notify, the socket later": func(c *tls.Conn) { say(c); _ = c.CloseWrite(); time.Sleep(later) },
		"the socket at once":             func(c *tls.Conn) { say(c); _ = c.NetConn().Close() },
		"the socket is half closed":      func(c *tls.Conn) { say(c); _ = c.NetConn().(*heldConn).CloseWrite(); time.Sleep(later) },
	} {
		t.Run(name, func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c *client.Client, conns watchedConns) {
				p := startPeer(t, func(conn *tls.Conn) {
					if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						_, _ = io.Copy(io.Discard, r.Body)
						answerAndEnd(conn)
					}
				})
				for range 20 {
					if _, got, err := c.Exchange(t.Context(), p.at(t, "/"), []byte("{}")); err != nil || string(got) != "ok" {
						t.Fatalf("got %q, %v", got, err)
					}
					conns.awaitClosed(t)
				}
			})
		})
	}
}

// TestRawAnswers reads what peers should not send.
func TestRawAnswers(t *testing.T) {
	ok := answer("ok")
	tests := map[string]struct {
		answer string
		fails  bool
	}{
		"informational":        {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, false},
		"a flood of 1xx":       {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 100)+"\r\n\r\n", 10_000) + ok, true},
		"endless header":       {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", true},
		"many headers":         {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: a\r\n", 1<<16) + "\r\n", true},
		"not HTTP":             {"hello\r\n", true},
		"nothing":              {"", true},
		"truncated":            {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok", true},
		"two lengths":          {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", true},
		"chunked":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		"trailer":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", false},
		"endless trailer":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", true},
		"until it is closed":   {"HTTP/1.1 200 OK\r\n\r\nok", false},
		"switched protocols":   {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", false},
		"more than it was for": {ok + answer("smuggled"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c *client.Client, conns watchedConns) {
				p := startPeer(t, func(conn *tls.Conn) {
					if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						_, _ = io.Copy(io.Discard, r.Body)
						_, _ = io.WriteString(conn, tt.answer)
					}
				})
				for range 2 {
					code, got, err := c.Exchange(t.Context(), p.at(t, "/"), []byte("{}"))
					if name == "switched protocols" {
						if code == http.StatusOK {
							t.Errorf("got %d %q, %v", code, got, err)
						}
					} else if tt.fails != (err != nil) || !tt.fails && (code != http.StatusOK || string(got) != "ok") {
						t.Errorf("got %d %q, %v", code, got, err)
					}
					conns.awaitClosed(t)
				}
			})
		})
	}
}

// TestEarlyAnswer proves that the answer of a peer that refuses a large request
// without reading it arrives, and that nothing is left for the next call.
func TestEarlyAnswer(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c *client.Client, _ watchedConns) {
		ca := hooktest.NewCA(t)
		pair, err := tls.X509KeyPair(ca.Issue("peer"))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength < 1000 {
				_, _ = io.WriteString(w, "next")
				return
			}
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = io.WriteString(w, "too large")
		}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		defer server.Close()
		p := &peer{ca: ca, url: server.URL}
		for range 3 {
			code, got, err := c.Exchange(t.Context(), p.at(t, "/"), make([]byte, 20_000_000))
			if err != nil || code != http.StatusRequestEntityTooLarge || string(got) != "too large" {
				t.Errorf("got %d %q, %v", code, got, err)
			}
			if code, got, err := c.Exchange(t.Context(), p.at(t, "/"), []byte("{}")); err != nil || code != http.StatusOK || string(got) != "next" {
				t.Errorf("the next call got %d %q, %v", code, got, err)
			}
		}
	})
}

// TestControlCharactersAreRefused lets nobody who can shape a URL write a request of
// their own: the peer sees none of it.
func TestControlCharactersAreRefused(t *testing.T) {
	const smuggled = "\r\nHost: x\r\nContent-Length: 0\r\n\r\nPOST /smuggled HTTP/1.1"
	eachCarrier(t, func(t *testing.T, c *client.Client, _ watchedConns) {
		var mu sync.Mutex
		var seen []string
		p := startPeer(t, func(conn *tls.Conn) {
			for reader := bufio.NewReader(conn); ; {
				r, err := http.ReadRequest(reader)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				seen = append(seen, r.URL.Path)
				mu.Unlock()
				_, _ = io.WriteString(conn, answer("ok"))
			}
		})
		for name, spoil := range map[string]func(*url.URL){
			"query": func(u *url.URL) { u.RawQuery = "timeout=1s HTTP/1.1" + smuggled },
			"host":  func(u *url.URL) { u.Host += smuggled },
			"raw":   func(u *url.URL) { u.Opaque = "/ HTTP/1.1" + smuggled },
		} {
			r := p.at(t, "/")
			spoil(r.URL)
			if code, got, err := c.Exchange(t.Context(), r, []byte("{}")); err == nil {
				t.Errorf("%s: got %d %q, want that the request is refused", name, code, got)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) > 0 {
			t.Errorf("the peer got requests for %q", seen)
		}
	})
}

var (
	// fragments are what answers consist of, well formed and not.
	fragments = []string{
		"HTTP/1.1 200 OK\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 X\r\n\r\n", "HTTP/1.1 204 No Content\r\n", "HTTP/1.1 304 NM\r\n",
		"HTTP/1.1 503 U\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/1.1 200\r\n", "HTTP/1.1 2000 OK\r\n", "HTTP/1.1 -20 OK\r\n", "http/1.1 200 OK\r\n",
		"Content-Length: 2\r\n", "Content-Length: 5\r\n", "Content-Length: +2\r\n", "Content-Length: 2, 2\r\n", "Content-Length: 3\r\n", "Content-Length: -1\r\n", "Content-Length: 0\r\n",
		"content-length:2\r\n", "Content-Length : 2\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding: gzip, chunked\r\n",
		"Transfer-Encoding: xchunked\r\n", "Transfer-Encoding:\tchunked\r\n", "Transfer-Encoding: chunked, chunked\r\n", "Connection: close\r\n", "Connection: keep-alive\r\n",
		"Trailer: X\r\n", "X: y\r\n", " folded\r\n", "NoColon\r\n", "X: \x00\r\n", ": v\r\n", "A: b\n", "X: " + strings.Repeat("z", 5000) + "\r\n",
		"\r\n", "\r\n", "\r\n", "\n", "ok", "{}", "2\r\nok\r\n", "0\r\n\r\n", "0\r\nX: y\r\n\r\n", "2;ext=1\r\nok\r\n", "2\nok\n", "-2\r\nok\r\n", "0x2\r\nok\r\n",
		"fffffffffffffffff\r\nok", "2\r\nokX\r\n", "5\r\nhello\r\n", "2;" + strings.Repeat("e", 20_000) + "\r\nok\r\n",
	}
	// wellFormed are answers to begin with.
	wellFormed = [][]string{
		{"HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "\r\n", "ok"},
		{"HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n", "\r\n", "2\r\nok\r\n", "0\r\n\r\n"},
		{"HTTP/1.1 200 OK\r\n", "Connection: close\r\n", "\r\n", "ok"},
		{"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n", "\r\n", "ok"},
		{"HTTP/1.1 204 No Content\r\n", "\r\n"},
	}
)

// mangled returns the TLS records of an answer that was changed at random, and
// whether the peer keeps the connection after it.
func mangled(seed uint64) (records []string, stays bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	parts := append([]string{}, wellFormed[rng.IntN(len(wellFormed))]...)
	for range rng.IntN(4) {
		i := rng.IntN(len(parts) + 1)
		switch change := rng.IntN(3); {
		case change == 0:
			parts = append(parts[:i], append([]string{fragments[rng.IntN(len(fragments))]}, parts[i:]...)...)
		case i == len(parts):
		case change == 1:
			parts = append(parts[:i], parts[i+1:]...)
		default:
			parts[i] = fragments[rng.IntN(len(fragments))]
		}
	}
	text := []byte(strings.Join(parts, ""))
	if len(text) > 0 && rng.IntN(6) == 0 {
		text[rng.IntN(len(text))] = byte(rng.IntN(256))
	}
	for len(text) > 0 {
		n := len(text)
		if rng.IntN(2) == 0 {
			n = 1 + rng.IntN(len(text))
		}
		records, text = append(records, string(text[:n])), text[n:]
	}
	return records, rng.IntN(2) == 0
}

// mangledCases returns the seeds of 5,000 answers in the deep suite, of forty in the gate.
func mangledCases() []uint64 {
	const all = 5000
	step := uint64(128)
	if level.IsDeep() {
		step = 1
	}
	var cases []uint64
	for c := uint64(0); c < all; c += step {
		cases = append(cases, c)
	}
	return cases
}

// TestMangledAnswers compares the client with net/http as it comes, over thousands of
// answers that were changed at random: it takes what net/http takes, and the call
// after it gets its own answer.
func TestMangledAnswers(t *testing.T) {
	cases := mangledCases()
	p := startPeer(t, serveMangled)
	catalog := newCatalog(t)
	var workers sync.WaitGroup
	var taken atomic.Int64
	seeds := make(chan uint64)
	for range 16 {
		workers.Go(func() {
			for seed := range seeds {
				if p.compare(t, newClient(t, client.Options{Catalog: catalog}), seed) {
					taken.Add(1)
				}
			}
		})
	}
	for _, seed := range cases {
		seeds <- seed
	}
	close(seeds)
	workers.Wait()
	if n, of := int(taken.Load()), len(cases); n < of/10 || n > of*9/10 {
		t.Errorf("%d of %d answers were taken, too few or too many to say that both take the same", n, of)
	}
}

// serveMangled answers the first request of a connection with the answer of its seed.
// A connection that stays does so for a moment, in which the next request may come:
// an answer without an end is ended by it.
func serveMangled(conn *tls.Conn) {
	for reader := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		var seed uint64
		if _, err := fmt.Sscanf(r.URL.Path, "/mangled/%d", &seed); err != nil {
			_, _ = io.WriteString(conn, answer("fresh"))
			continue
		}
		records, stays := mangled(seed)
		for _, record := range records {
			if _, err := io.WriteString(conn, record); err != nil {
				return
			}
		}
		if !stays {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	}
}

// compare tells whether the client took the answer.
func (p *peer) compare(t *testing.T, c *client.Client, seed uint64) bool {
	ctx := t.Context()
	path := fmt.Sprintf("/mangled/%d", seed)
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.ca.Pool(), MinVersion: tls.VersionTLS12}}}
	wantCode, want, wantErr := post(ctx, plain, p.url+path)
	code, got, err := c.Exchange(ctx, p.at(t, path), []byte("x"))
	if (err != nil) != (wantErr != nil) || err == nil && (code != wantCode || string(got) != string(want)) {
		records, stays := mangled(seed)
		t.Errorf("case %d: got %d %q, %v; net/http gets %d %q, %v; the peer sent %.300q and stays: %t", seed, code, got, err, wantCode, want, wantErr, records, stays)
	}
	time.Sleep(2 * time.Millisecond)
	if _, got, err := c.Exchange(ctx, p.at(t, "/next"), []byte("x")); err == nil && string(got) != "fresh" {
		t.Errorf("case %d: the next call got %q, the answer of another one", seed, got)
	}
	return err == nil
}

func post(ctx context.Context, c *http.Client, url string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		return 0, nil, err
	}
	response, err := c.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, data, err
}
