package program

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxBodies bounds the bodies of all requests that are under way, in bytes. Anybody on the network may send one: the
// webhooks have no credentials of their callers. The largest that an API server sends converts a list.
const maxBodies = 64 << 20

// bodies bounds what a server reads at the same time. Above the limit the request that has sent most ends.
type bodies struct {
	http.Handler
	limit int64

	mu    sync.Mutex
	total int64
	open  map[*body]struct{}
}

func boundBodies(h http.Handler, limit int64) *bodies {
	return &bodies{Handler: h, limit: limit, open: map[*body]struct{}{}}
}

// ServeHTTP implements http.Handler.
func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := &body{ReadCloser: r.Body, of: b, control: http.NewResponseController(w)}
	b.mu.Lock()
	b.open[one] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.remove(one)
	}()
	r.Body = one
	b.Handler.ServeHTTP(w, r)
}

// remove is for who holds the lock.
func (b *bodies) remove(one *body) {
	if _, open := b.open[one]; open {
		b.total -= one.size
		delete(b.open, one)
	}
}

// add counts what came, and returns the body that has to end for it; nil for none.
func (b *bodies) add(to *body, n int) (largest *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, open := b.open[to]; !open {
		return to
	}
	to.size += int64(n)
	if b.total += int64(n); b.total <= b.limit {
		return nil
	}
	for other := range b.open {
		if largest == nil || other.size > largest.size {
			largest = other
		}
	}
	b.remove(largest)
	return largest
}

type body struct {
	io.ReadCloser
	of      *bodies
	control *http.ResponseController
	size    int64 // guarded by the lock of the bodies
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch largest := b.of.add(b, n); largest {
	case nil:
	case b:
		return 0, errors.New("the bodies of all requests have too many bytes, and this one most of them")
	default:
		_ = largest.control.SetReadDeadline(time.Now()) // a connection without deadlines is none of a network
	}
	return n, err
}
