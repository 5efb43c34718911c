package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options configures a Transport. All fields are required.
type Options struct {
	// Address is the host and port of all requests.
	Address string
	// Dial connects to Address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the configuration of all connections.
	TLS *tls.Config
	// MaxConns bounds the requests at a time, MaxIdle the connections that are kept.
	MaxConns, MaxIdle int
	// HandshakeTimeout bounds the TLS handshake.
	HandshakeTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds the header of a response.
	MaxHeaderBytes int64
}

// Transport is a http.RoundTripper for one host. It is safe for concurrent use.
type Transport struct {
	options Options
	slots   chan struct{}

	mu         sync.Mutex
	idle       []*conn // the most recently used is the last
	generation int
}

// New returns a transport without connections.
func New(o Options) *Transport {
	return &Transport{options: o, slots: make(chan struct{}, o.MaxConns)}
}

// RoundTrip implements http.RoundTripper. The length of the request's body must be
// known. The body of the response must be closed, and ends with the request's
// context; read to its end, it frees the connection for the next request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.ContentLength < 0 || r.Body == nil && r.ContentLength > 0 {
		closeBody(r)
		return nil, errors.New("h1: the length of the request is not known")
	}
	c, err := t.get(r.Context())
	if err != nil {
		closeBody(r)
		return nil, err
	}
	response, err := c.exchange(r)
	if err != nil {
		c.discard()
		if ctxErr := r.Context().Err(); ctxErr != nil {
			err = ctxErr
		}
		return nil, err
	}
	return response, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// CloseIdleConnections closes what is not in use, and the rest after its use.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	idle := t.idle
	t.idle = nil
	t.generation++
	t.mu.Unlock()
	for _, c := range idle {
		c.expiry.Stop()
		c.close()
	}
}

// get returns a connection that is open, waiting for one of the MaxConns slots.
func (t *Transport) get(ctx context.Context) (*conn, error) {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for c := t.pop(); c != nil; c = t.pop() {
		if c.alive() {
			return c, nil
		}
		c.close()
	}
	c, err := t.dial(ctx)
	if err != nil {
		<-t.slots
		return nil, err
	}
	return c, nil
}

func (t *Transport) pop() *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle) == 0 {
		return nil
	}
	c := t.idle[len(t.idle)-1]
	t.idle = t.idle[:len(t.idle)-1]
	c.expiry.Stop()
	return c
}

// put keeps c for the next request and frees its slot.
func (t *Transport) put(c *conn) {
	defer func() { <-t.slots }()
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.generation != t.generation || len(t.idle) >= t.options.MaxIdle || !c.checkable() {
		go c.close()
		return
	}
	t.idle = append(t.idle, c)
	if c.expiry == nil {
		c.expiry = time.AfterFunc(t.options.IdleTimeout, func() { t.expire(c) })
		return
	}
	c.expiry.Reset(t.options.IdleTimeout)
}

func (t *Transport) expire(c *conn) {
	t.mu.Lock()
	i := slices.Index(t.idle, c)
	if i >= 0 {
		t.idle = slices.Delete(t.idle, i, i+1)
	}
	t.mu.Unlock()
	if i >= 0 {
		c.close()
	}
}

func (t *Transport) dial(ctx context.Context) (*conn, error) {
	t.mu.Lock()
	generation := t.generation
	t.mu.Unlock()
	raw, err := t.options.Dial(ctx, "tcp", t.options.Address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.options.HandshakeTimeout)
	defer cancel()
	secured := tls.Client(raw, t.options.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	c := &conn{transport: t, raw: raw, tls: secured, generation: generation, probe: newProbe(raw)}
	c.interrupt = func() { _ = c.raw.SetDeadline(time.Unix(1, 0)) }
	c.reader = bufio.NewReader(c)
	c.writer = bufio.NewWriterSize(secured, maxRecord)
	return c, nil
}
