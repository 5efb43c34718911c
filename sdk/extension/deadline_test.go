package extension_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestReadDeadline sends requests in parts. Each 256 KiB of a body have ReadTimeout,
// the whole of it has 30 s; the clock is the test's.
func TestReadDeadline(t *testing.T) {
	const piece = 256 << 10
	certFile, keyFile := hooktest.NewCA(t).Files(t.TempDir(), "server")
	tests := map[string]struct {
		announced, part int
		every           time.Duration // between parts
		parts           int           // then nothing more is sent
		code            int
		after           time.Duration // at the latest
	}{
		"at once":                  {announced: 100, part: 100, parts: 1, code: http.StatusOK},
		"each part in time":        {announced: 4 * piece, part: piece, every: 4 * time.Second, parts: 4, code: http.StatusOK, after: 12 * time.Second},
		"short and stalled":        {announced: 1000, part: 100, parts: 1, code: http.StatusRequestTimeout, after: 5 * time.Second},
		"large and stalled":        {announced: 4 * piece, part: piece, parts: 2, code: http.StatusRequestTimeout, after: 5 * time.Second},
		"a byte now and then":      {announced: 4 * piece, part: 1, every: time.Second, parts: 100, code: http.StatusRequestTimeout, after: 5 * time.Second},
		"each part in time, slow":  {announced: 40 * piece, part: piece, every: 4 * time.Second, parts: 40, code: http.StatusRequestTimeout, after: 30 * time.Second},
		"the last part comes late": {announced: 2 * piece, part: piece, every: 6 * time.Second, parts: 2, code: http.StatusRequestTimeout, after: 5 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := serveOnPipe(t, extension.Options{CertFile: certFile, KeyFile: keyFile, ReadTimeout: 5 * time.Second})
				start := time.Now()
				var sender sync.WaitGroup
				sender.Go(func() {
					body := strings.Repeat(" ", tt.announced-2) + "{}"
					_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", createPath, tt.announced)
					for i := range tt.parts {
						if i > 0 {
							time.Sleep(tt.every)
						}
						// Once the server has closed the connection it takes no more.
						if _, err := conn.Write([]byte(body[i*tt.part : (i+1)*tt.part])); err != nil {
							return
						}
					}
				})
				// time goes on only as long as somebody waits here
				defer sender.Wait()
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				var text bytes.Buffer
				_, _ = text.ReadFrom(response.Body)
				_ = response.Body.Close()
				if response.StatusCode != tt.code {
					t.Errorf("got %s %s, want %d", response.Status, &text, tt.code)
				}
				if took := time.Since(start); took > tt.after {
					t.Errorf("answered after %s, want at most %s", took, tt.after)
				}
				if closes := response.Close; closes != (tt.code == http.StatusRequestTimeout) {
					t.Errorf("the connection is to be closed: %t", closes)
				}
			})
		})
	}
}

// serveOnPipe serves until the test ends and returns a connection in memory, whose
// deadlines follow the clock of the test.
func serveOnPipe(t *testing.T, o extension.Options) *tls.Conn {
	t.Helper()
	s := newServer(t, o)
	if err := handle(s, "h", answerNil); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	listener := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	listener.conns <- theirs
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	conn := tls.Client(ours, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // about time, not trust
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// pipeListener accepts connections that the test makes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
