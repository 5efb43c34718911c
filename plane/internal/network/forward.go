package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// dialTimeout bounds how long a client of a Forwarder waits for the other side.
const dialTimeout = 10 * time.Second

// acceptPause is how long is waited after an error that ends by itself.
const acceptPause = 50 * time.Millisecond

// forwarded bounds the connections of a Forwarder, each of which costs the plane two descriptors. Nobody identifies
// their clients, the users of this machine, as TLS is not the plane's.
var forwarded = listener.Options{Anonymous: 1024}

// Forwarder passes each connection that its listener accepts on to the address
// that Dial reaches. A half-closed connection stays open in the other direction.
type Forwarder struct {
	// Listener is owned by the forwarder, which closes it.
	Listener net.Listener
	// Dial opens the other side.
	Dial func(ctx context.Context) (net.Conn, error)
	// OnDialError, if set, hears why a client was turned away.
	OnDialError func(error)
	// OnAcceptError, if set, hears the first in a row of errors that end by themselves.
	OnAcceptError func(error)
}

// Serve forwards until ctx ends, then closes the listener and all connections.
// When it returns, no goroutine of it is left. The error is nil after ctx ended.
func (f *Forwarder) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	l := listener.New(f.Listener, forwarded)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	for {
		c, err := accept(ctx, l, f.OnAcceptError)
		switch {
		case err == nil:
			conns.Go(func() { f.forward(ctx, c) })
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("forward %s: %w", f.Listener.Addr(), err)
		}
	}
}

// accept waits for the next connection. An error that is not of the listener ends by itself:
// it is the one of a connection, or connections that end give the machine back what it lacks.
// The first in a row is told.
func accept(ctx context.Context, l net.Listener, tell func(error)) (net.Conn, error) {
	for told := false; ; told = true {
		c, err := l.Accept()
		if err == nil || ctx.Err() != nil || !isTransient(err) {
			return c, err
		}
		if !told && tell != nil {
			tell(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(acceptPause):
		}
	}
}

// transient are the errors after which accept(2) may be called again: what the machine lacks,
// what a firewall forbade, and what went wrong with a connection before it was accepted.
var transient = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EPERM, unix.ECONNABORTED,
	unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET, unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH,
}

func isTransient(err error) bool {
	return slices.ContainsFunc(transient, func(t error) bool { return errors.Is(err, t) })
}

func (f *Forwarder) forward(ctx context.Context, client net.Conn) {
	defer client.Close()
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	server, err := f.Dial(dialCtx)
	if err != nil {
		if f.OnDialError != nil && ctx.Err() == nil {
			f.OnDialError(err)
		}
		return
	}
	Join(ctx, client, server)
}

// Join copies between two connections until both directions have ended, one of them failed,
// or ctx ended, then closes both. A direction that ends leaves the other one open.
func Join(ctx context.Context, client, server net.Conn) {
	closeBoth := func() { _, _ = client.Close(), server.Close() }
	defer closeBoth()
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	var up sync.WaitGroup
	up.Go(func() { pipe(server, client, closeBoth) })
	pipe(client, server, closeBoth)
	up.Wait()
}

// pipe copies until src ends and passes the end on; an error ends both directions.
func pipe(dst, src net.Conn, abort func()) {
	if _, err := io.Copy(dst, src); err != nil {
		abort()
		return
	}
	half, ok := dst.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		abort()
	}
}
