package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds how long a client of a Forwarder waits for the other side.
const dialTimeout = 10 * time.Second

// Forwarder passes each connection that its listener accepts on to the address
// that Dial reaches. A half-closed connection stays open in the other direction.
type Forwarder struct {
	// Listener is owned by the forwarder, which closes it.
	Listener net.Listener
	// Dial opens the other side.
	Dial func(ctx context.Context) (net.Conn, error)
	// OnDialError, if set, hears why a client was turned away.
	OnDialError func(error)
}

// Serve forwards until ctx ends, then closes the listener and all connections.
// When it returns, no goroutine of it is left. The error is nil after ctx ended.
func (f *Forwarder) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = f.Listener.Close() })
	defer stop()
	defer f.Listener.Close()
	for {
		c, err := f.Listener.Accept()
		switch {
		case err == nil:
			conns.Go(func() { f.forward(ctx, c) })
		case ctx.Err() != nil:
			return nil
		case isTransient(err):
			// Out of descriptors: connections that end will free some.
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		default:
			return fmt.Errorf("forward %s: %w", f.Listener.Addr(), err)
		}
	}
}

func isTransient(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED)
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
	defer server.Close()
	closeBoth := func() { _, _ = client.Close(), server.Close() }
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
