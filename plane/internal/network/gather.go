package network

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// Door is a socket by which a server is reached besides the one that it opens itself.
type Door struct {
	// Listener is owned by what Gather returns, which closes it.
	Listener net.Listener
	// Max is the maximum of connections of clients that the server has identified (see package listener); a
	// quarter as many have not been, at least one. 0 for a socket that only this machine reaches: see Local.
	Max int
	// OnError, if set, hears the first in a row of errors that end by themselves, and the one
	// that shuts the door.
	OnError func(error)
}

// Local limits the connections at a socket that only this machine reaches.
var Local = listener.Options{Anonymous: 1024, Identified: 1 << 16}

func (d Door) options() listener.Options {
	if d.Max == 0 {
		return Local
	}
	return listener.Options{Anonymous: max(1, d.Max/4), Identified: d.Max}
}

// Gather returns a listener with the address of the first one, which accepts at the doors,
// too. So the server sees who calls at each of them, which a Forwarder would hide. It is open
// until it is closed; a door that is shut by an error keeps nobody from calling elsewhere.
func Gather(ctx context.Context, first net.Listener, doors ...Door) net.Listener {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &gathered{Listener: first, doors: doors, ctx: ctx, cancel: cancel, arrivals: make(chan arrival)}
	g.running.Go(g.admitFirst)
	for _, d := range doors {
		g.running.Go(func() { g.admit(listener.New(d.Listener, d.options()), d.OnError) })
	}
	return g
}

type gathered struct {
	net.Listener
	doors    []Door
	ctx      context.Context //nolint:containedctx // it is the life of the listener
	cancel   context.CancelFunc
	arrivals chan arrival
	running  sync.WaitGroup
}

type arrival struct {
	conn net.Conn
	err  error
}

// Accept implements net.Listener. Its errors are those of the first listener.
func (g *gathered) Accept() (net.Conn, error) {
	select {
	case a := <-g.arrivals:
		return a.conn, a.err
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: it shuts all doors.
func (g *gathered) Close() error {
	g.cancel()
	err := g.Listener.Close()
	for _, d := range g.doors {
		err = errors.Join(err, d.Listener.Close())
	}
	g.running.Wait()
	return err
}

// admitFirst passes on what the first listener accepts, errors included: the server judges
// them.
func (g *gathered) admitFirst() {
	for {
		conn, err := g.Listener.Accept()
		if !g.arrive(arrival{conn, err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// admit passes on what a door lets in, until the listener is closed.
func (g *gathered) admit(door net.Listener, onError func(error)) {
	for {
		conn, err := accept(g.ctx, door, onError)
		if err != nil {
			if g.ctx.Err() == nil && onError != nil {
				onError(err)
			}
			return
		}
		if !g.arrive(arrival{conn: conn}) {
			return
		}
	}
}

// arrive hands a connection over, unless the listener is closed before.
func (g *gathered) arrive(a arrival) bool {
	select {
	case g.arrivals <- a:
		return true
	case <-g.ctx.Done():
		if a.conn != nil {
			_ = a.conn.Close()
		}
		return false
	}
}
