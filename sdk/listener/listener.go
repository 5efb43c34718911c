package listener

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// HandshakeTimeout bounds the TLS handshake of a connection.
const HandshakeTimeout = 3 * time.Second

// Options of a listener; the zero value has all defaults.
type Options struct {
	// Anonymous is the maximum of connections whose clients are not identified. Their addresses share it; an
	// IPv6 address stands for its /64, and all clients of a Unix socket for one. Default 256.
	Anonymous int
	// Identified is the maximum of connections whose clients are identified. The identities share it. Default
	// 1024.
	Identified int
	// ErrorLog receives failed handshakes in the words of http.Server. Any client can cause them, as often as
	// it likes. Default: none.
	ErrorLog *log.Logger
}

// New returns a listener for a server without TLS, or one that makes the handshakes itself. It owns inner.
// Connections are anonymous until a handler calls Identify.
func New(inner net.Listener, o Options) net.Listener { return newListener(inner, o) }

// NewTLS returns a listener whose connections are *tls.Conn after a handshake with config, for Serve of an
// http.Server; config.NextProtos names the protocols, as for tls.NewListener. It owns inner. A connection is
// identified by the issuer and subject of its client's certificate, or by a certificate without a subject, when config
// verifies it (see tls.ClientAuthType); otherwise it stays anonymous until a handler calls Identify. HandshakeTimeout
// limits a handshake.
func NewTLS(inner net.Listener, config *tls.Config, o Options) net.Listener {
	l := &tlsListener{listener: newListener(inner, o), config: config, log: o.ErrorLog, accepted: make(chan accepted)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.running.Go(l.run)
	return l
}

// Identify counts the connection of a request, whose context ctx is, for an identity: the name of a user, say,
// that the server authenticated by a token. The first identity of a connection stays. It does nothing for
// requests of servers without a listener of this package.
func Identify(ctx context.Context, identity string) {
	if at, ok := ctx.Value(http.LocalAddrContextKey).(localAddr); ok && !at.conn.identified.Load() {
		at.conn.listener.identify(at.conn, "name "+identity)
	}
}

// listener counts the connections of another one.
type listener struct {
	net.Listener
	start time.Time // of the times of activity

	mu                    sync.Mutex
	anonymous, identified budget
}

func newListener(inner net.Listener, o Options) *listener {
	return &listener{
		Listener: inner, start: time.Now(),
		anonymous:  budget{limit: cmp.Or(max(o.Anonymous, 0), 256)},
		identified: budget{limit: cmp.Or(max(o.Identified, 0), 1024)},
	}
}

// Accept implements net.Listener. Its errors are those of the inner listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.admit(inner), nil
}

func (l *listener) admit(inner net.Conn) *conn {
	c := &conn{Conn: inner, listener: l, done: make(chan struct{})}
	c.touch()
	l.mu.Lock()
	gone := l.anonymous.add(c, addressOf(inner))
	l.mu.Unlock()
	if gone != nil {
		_ = gone.Close()
	}
	return c
}

func (l *listener) identify(c *conn, key string) {
	var gone *conn
	l.mu.Lock()
	if c.in == &l.anonymous { // neither closed nor identified meanwhile
		l.anonymous.remove(c)
		c.identified.Store(true)
		gone = l.identified.add(c, key)
	}
	l.mu.Unlock()
	if gone != nil {
		_ = gone.Close()
	}
}

// tlsListener makes the handshakes beside each other, so that none waits for another.
type tlsListener struct {
	*listener
	config   *tls.Config
	log      *log.Logger     // may be nil
	ctx      context.Context //nolint:containedctx // it is the life of the listener
	cancel   context.CancelFunc
	accepted chan accepted
	running  sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

// Accept implements net.Listener. Its errors are those of the inner listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends the handshakes under way, too.
func (l *tlsListener) Close() error {
	l.cancel()
	err := l.Listener.Close()
	l.running.Wait()
	return err
}

func (l *tlsListener) run() {
	for {
		inner, err := l.Listener.Accept()
		if err == nil {
			c := l.admit(inner)
			l.running.Go(func() { l.shakeHands(c) })
			continue
		}
		select {
		case l.accepted <- accepted{err: err}: // the server decides whether to go on
		case <-l.ctx.Done():
		}
		if l.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// shakeHands hands a connection over once it has a TLS session, or closes it. It ends when the connection is closed.
func (l *tlsListener) shakeHands(c *conn) {
	ctx, cancel := context.WithTimeout(l.ctx, HandshakeTimeout)
	defer cancel()
	secure := tls.Server(c, l.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		l.failed(c, err)
		return
	}
	if chains := secure.ConnectionState().VerifiedChains; len(chains) > 0 {
		l.identify(c, holder(chains[0][0]))
	}
	select {
	case l.accepted <- accepted{conn: secure}:
	case <-c.done:
	case <-l.ctx.Done():
		_ = c.Close()
	}
}

// holder is who has a certificate: a client may have as many of one subject as its CA signs.
func holder(c *x509.Certificate) string {
	if len(c.Subject.Names) > 0 {
		return "subject " + string(c.RawIssuer) + string(c.RawSubject)
	}
	sum := sha256.Sum256(c.Raw)
	return "certificate " + string(sum[:])
}

// failed closes a connection after its handshake and logs why. One that was closed for another connection, or with
// the listener, did not fail.
func (l *tlsListener) failed(c *conn, err error) {
	closed := c.Close() == nil || errors.Is(err, context.DeadlineExceeded)
	if closed && l.log != nil && l.ctx.Err() == nil {
		l.log.Printf("http: TLS handshake error from %s: %v", c.RemoteAddr(), err)
	}
}

// conn is a connection that a listener counts until it is closed.
type conn struct {
	net.Conn
	listener *listener
	// active is when data was last read, or a write of it begun, in nanoseconds since the start of the listener.
	active     atomic.Int64
	identified atomic.Bool
	closing    sync.Once
	done       chan struct{} // closed with the connection

	// Guarded by the lock of the listener.
	in  *budget // nil once it is not counted any more
	key string
}

func (c *conn) touch() { c.active.Store(int64(time.Since(c.listener.start))) }

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.touch()
	}
	return n, err
}

// Write implements net.Conn. It counts from its begin: after it, a client that has read the data may have connected
// again, and the new connection would count as silent for longer.
func (c *conn) Write(b []byte) (int, error) {
	c.touch()
	return c.Conn.Write(b)
}

// Close implements net.Conn. A connection may be closed by its server and by its listener.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.closing.Do(func() {
		c.listener.mu.Lock()
		if c.in != nil {
			c.in.remove(c)
		}
		c.listener.mu.Unlock()
		close(c.done)
		err = c.Conn.Close()
	})
	return err
}

// CloseWrite lets an http.Server end an answer before it closes the connection, as net.TCPConn does.
func (c *conn) CloseWrite() error {
	if inner, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return inner.CloseWrite()
	}
	return errors.ErrUnsupported
}

// LocalAddr implements net.Conn. An http.Server passes it on in the context of requests.
func (c *conn) LocalAddr() net.Addr { return localAddr{c.Conn.LocalAddr(), c} }

// localAddr leads from a request to its connection.
type localAddr struct {
	net.Addr
	conn *conn
}

// addressOf is the address that a connection is counted by.
func addressOf(c net.Conn) string {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return "" // a Unix socket
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if prefix, err := ip.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}
