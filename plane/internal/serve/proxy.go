package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// Limits of one client: for its request, and for the other side to answer.
const (
	headerTimeout = 10 * time.Second
	dialTimeout   = 10 * time.Second
)

// Proxy serves HTTP CONNECT (RFC 9110, section 9.3.6), and nothing else.
type Proxy struct {
	// Listener is owned by the proxy, which closes it.
	Listener net.Listener
	// Dial connects to host:port, which may be a name.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	life sync.RWMutex // held for reading by each request and its tunnel
}

// Serve serves until ctx ends, then closes the listener and all tunnels. When it returns, no
// tunnel of it is left. The error is nil after ctx ended. Call it once.
func (p *Proxy) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{
		ReadHeaderTimeout: headerTimeout, IdleTimeout: headerTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if p.life.TryRLock() { // unless it is over
				defer p.life.RUnlock()
				serveConnect(ctx, w, r, p.Dial)
			}
		}),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(p.Listener)
	ended := ctx.Err() != nil
	cancel()
	p.life.Lock()
	if ended {
		return nil
	}
	return fmt.Errorf("proxy at %s: %w", p.Listener.Addr(), err)
}

func serveConnect(ctx context.Context, w http.ResponseWriter, r *http.Request, dial func(context.Context, string, string) (net.Conn, error)) {
	if r.Method != http.MethodConnect {
		w.Header().Set("Allow", http.MethodConnect)
		http.Error(w, "only CONNECT is served: the plane reaches other machines by TLS alone", http.StatusMethodNotAllowed)
		return
	}
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	// The deadlines of the request are none of the tunnel; what follows a CONNECT waits for
	// the answer.
	if client.SetDeadline(time.Time{}) != nil || buffered.Reader.Buffered() > 0 {
		return
	}
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	server, err := dial(dialCtx, "tcp", r.Host)
	if err != nil {
		_, _ = client.Write(answer(http.StatusBadGateway, fmt.Sprintf("connect to %s from the machine of the plane: %v", r.Host, err)))
		return
	}
	if _, err := client.Write(answer(http.StatusOK, "Connection established")); err != nil {
		_ = server.Close()
		return
	}
	network.Join(ctx, client, server)
}

// answer has the reason in its first line: all that Go's clients tell of a CONNECT which
// failed, and so what a condition shows.
func answer(code int, reason string) []byte {
	reason = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, reason)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n\r\n", code, reason)
}
