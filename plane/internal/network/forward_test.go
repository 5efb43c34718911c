package network

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// listen opens a listener on the loopback of the machine.
func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

// forwardTo runs a forwarder to the address of target and returns its own address
// and what Serve returns in the end.
func forwardTo(t *testing.T, dial func(context.Context) (net.Conn, error)) (address string, cancel func(), served <-chan error) {
	t.Helper()
	l := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	done := make(chan error, 1)
	f := &Forwarder{Listener: l, Dial: dial}
	go func() { done <- f.Serve(ctx) }()
	return l.Addr().String(), stop, done
}

func dialTo(l net.Listener) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

func TestForwarderKeepsHalfClosedConnections(t *testing.T) {
	target := listen(t)
	go func() {
		c, err := target.AcceptTCP()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c) // answers only after the client's end
		_, _ = c.Write(append([]byte("got "), all...))
	}()
	address, cancel, served := forwardTo(t, dialTo(target))
	c := dial(t, address)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "got hello" {
		t.Errorf("got %q, %v", got, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestForwarderEndsWithItsContext(t *testing.T) {
	target := listen(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := target.Accept(); err == nil {
			accepted <- c
		}
	}()
	address, cancel, served := forwardTo(t, dialTo(target))
	c := dial(t, address)
	server := <-accepted
	defer server.Close()
	cancel()
	// Serve returns only when the goroutines of the open connection have ended.
	if err := poll.Receive(t, "the forwarder ends in spite of an idle connection", served); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the client's connection is still open")
	}
	if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		t.Error("the listener is still open")
	}
}

func TestForwarderTurnsClientsAwayWithoutTarget(t *testing.T) {
	l := listen(t)
	failed := make(chan error, 1)
	f := &Forwarder{
		Listener:    l,
		Dial:        func(context.Context) (net.Conn, error) { return nil, errors.New("refused") },
		OnDialError: func(err error) { failed <- err },
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = f.Serve(ctx) }()
	if _, err := io.ReadAll(dial(t, l.Addr().String())); err != nil {
		t.Errorf("the client sees %v, want a clean end", err)
	}
	if err := <-failed; err == nil || err.Error() != "refused" {
		t.Error(err)
	}
}

func TestForwarderReportsALostListener(t *testing.T) {
	l := listen(t)
	f := &Forwarder{Listener: l, Dial: dialTo(l)}
	done := make(chan error, 1)
	go func() { done <- f.Serve(t.Context()) }()
	_ = l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// failing is a listener whose Accept fails a few times first.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) == 0 {
		return f.Listener.Accept()
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
}

// What a machine lacks for a moment, or a connection that broke, ends no listener. It is told
// once as long as it goes on.
func TestForwarderOutlivesErrors(t *testing.T) {
	target := listen(t)
	go greeter(target, "hello")
	for _, cause := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EPROTO, unix.ECONNABORTED, unix.EHOSTUNREACH} {
		front := listen(t)
		told := make(chan error, 10)
		f := &Forwarder{Listener: &failing{front, []error{cause, cause}}, Dial: dialTo(target), OnAcceptError: func(err error) { told <- err }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Serve(ctx) }()
		if got, err := io.ReadAll(dial(t, front.Addr().String())); err != nil || string(got) != "hello" {
			t.Errorf("after %v: got %q, %v", cause, got, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("after %v: %v", cause, err)
		}
		if len(told) != 1 {
			t.Errorf("%v: told %d times, want once", cause, len(told))
		} else if err := <-told; !errors.Is(err, cause) {
			t.Errorf("told %v, want %v", err, cause)
		}
	}
}

// TestForwarderBoundsItsConnections has one connection more than there may be: the one that has been silent for the
// longest time is closed.
func TestForwarderBoundsItsConnections(t *testing.T) {
	target := listen(t)
	go func() {
		for {
			c, err := target.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	address, _, _ := forwardTo(t, dialTo(target))
	first := dial(t, address)
	for range forwarded.Anonymous {
		dial(t, address)
	}
	if n, err := first.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the first connection: %d bytes, %v", n, err)
	}
}

// An error of the listener itself is none to try again after.
func TestForwarderEndsWithItsListener(t *testing.T) {
	f := &Forwarder{Listener: &failing{listen(t), []error{unix.EINVAL}}}
	if err := f.Serve(t.Context()); !errors.Is(err, unix.EINVAL) {
		t.Errorf("got %v", err)
	}
}
