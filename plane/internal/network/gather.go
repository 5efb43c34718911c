package network

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Door is a socket by which a server is reached besides the one that it opens itself.
type Door struct {
	// Listener is owned by what Gather returns, which closes it.
	Listener net.Listener
	// Max bounds the connections at once; those beyond wait until one ends. 0 for no bound.
	Max int
	// OnError, if set, hears the first in a row of errors that end by themselves, and the one
	// that shuts the door.
	OnError func(error)
}

// Gather returns a listener with the address of the first one, which accepts at the doors,
// too. So the server sees who calls at each of them, which a Forwarder would hide. It is open
// until it is closed; a door that is shut by an error keeps nobody from calling elsewhere.
func Gather(ctx context.Context, first net.Listener, doors ...Door) net.Listener {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	g := &gathered{Listener: first, doors: doors, ctx: ctx, cancel: cancel, arrivals: make(chan arrival)}
	g.running.Go(g.admitFirst)
	for _, d := range doors {
		g.running.Go(func() { g.admit(d) })
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
func (g *gathered) admit(d Door) {
	free := newPlaces(d.Max)
	for free.take(g.ctx) {
		conn, err := accept(g.ctx, d.Listener, d.OnError)
		if err != nil {
			if g.ctx.Err() == nil && d.OnError != nil {
				d.OnError(err)
			}
			return
		}
		if free != nil {
			conn = &counted{Conn: conn, ended: sync.OnceFunc(free.give)}
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

// counted is a connection with one of the places of its door.
type counted struct {
	net.Conn
	ended func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.ended()
	return c.Conn.Close()
}

// places are those of connections at once; nil for no bound.
type places chan struct{}

func newPlaces(bound int) places {
	if bound == 0 {
		return nil
	}
	return make(places, bound)
}

// take waits for a place, and says whether there is one.
func (p places) take(ctx context.Context) bool {
	if p == nil {
		return ctx.Err() == nil
	}
	select {
	case p <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p places) give() { <-p }
