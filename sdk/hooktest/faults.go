package hooktest

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Faults is a server that misbehaves. What it does can be changed at any time.
type Faults struct {
	// URL is its address, CA signed its certificate.
	URL string
	CA  *CA

	behave   atomic.Pointer[http.HandlerFunc]
	requests atomic.Int64
	server   *httptest.Server
}

// StartFaults serves the fault until the test ends.
func StartFaults(t testing.TB, fault http.HandlerFunc) *Faults {
	t.Helper()
	f := &Faults{CA: NewCA(t)}
	f.behave.Store(&fault)
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		// A server notices that a caller went away only once it has read the body.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		(*f.behave.Load())(w, r)
	}))
	f.server.TLS = f.CA.tlsConfig("faults")
	// What goes wrong with connections is what the test is about.
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.StartTLS()
	f.URL = f.server.URL
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// Set changes what the server does.
func (f *Faults) Set(fault http.HandlerFunc) { f.behave.Store(&fault) }

// Requests returns the number of requests that arrived.
func (f *Faults) Requests() int64 { return f.requests.Load() }

// CloseConnections closes all connections, as a restart does, and waits for those
// that serve a request.
func (f *Faults) CloseConnections() { f.server.CloseClientConnections() }

// Status answers with an HTTP status and a text.
func Status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
}

// Body answers with 200 and body.
func Body(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// Hang answers nothing until the caller gives up.
func Hang() http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}

// Slow answers with body after d.
func Slow(d time.Duration, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			_, _ = w.Write([]byte(body))
		case <-r.Context().Done():
		}
	}
}

// Drop closes the connection without an answer.
func Drop() http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
}

// Truncate announces more than it sends.
func Truncate() http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"status":"Success"`))
	}
}

// Redirect sends the caller to url.
func Redirect(url string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusTemporaryRedirect) }
}

// Endless answers with a JSON string that ends after size bytes, or never when
// size is zero.
func Endless(size int64) http.HandlerFunc {
	chunk := bytes.Repeat([]byte("a"), 64<<10)
	return func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte(`{"status":"Success","message":"`)); err != nil {
			return
		}
		for sent := int64(0); size == 0 || sent < size; sent += int64(len(chunk)) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		_, _ = w.Write([]byte(`"}`))
	}
}

// GzipBomb answers with at least size bytes of JSON that are small on the wire: members of
// gzip (RFC 1952), one after the other, of which most are the same.
func GzipBomb(size int) http.HandlerFunc {
	chunk := bytes.Repeat([]byte("a"), 1<<20)
	body := bytes.Join([][]byte{
		gzipped([]byte(`{"status":"Success","message":"`)),
		bytes.Repeat(gzipped(chunk), (size+len(chunk)-1)/len(chunk)),
		gzipped([]byte(`"}`)),
	}, nil)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	}
}

// gzipped is one member of a gzip file.
func gzipped(text []byte) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(text)
	_ = z.Close()
	return buf.Bytes()
}
