package network

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// A server behind several sockets sees its callers, not one of its own sockets.
func TestGatherShowsWhoCalls(t *testing.T) {
	first, door := listen(t), listen(t)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	})}
	gathered := Gather(t.Context(), first, Door{Listener: door, Max: 1})
	if gathered.Addr() != first.Addr() {
		t.Errorf("its address is %s, want the first one's, %s", gathered.Addr(), first.Addr())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(gathered) }()
	for _, l := range []net.Listener{first, door} {
		c := dial(t, l.Addr().String())
		if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if want := c.LocalAddr().String(); err != nil || len(answer) < len(want) || string(answer[len(answer)-len(want):]) != want {
			t.Errorf("at %s the server saw %q, want %s; %v", l.Addr(), answer, want, err)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	for _, l := range []net.Listener{first, door} {
		if _, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
			t.Errorf("%s is still open", l.Addr())
		}
	}
}

// TestGatherBoundsItsDoors has two clients at a door that the server has not identified: the second one is served, the
// first one closed. One that was identified before stays.
func TestGatherBoundsItsDoors(t *testing.T) {
	door := listen(t)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/admin" {
			listener.Identify(r.Context(), "admin")
		}
	})}
	gathered := Gather(t.Context(), listen(t), Door{Listener: door, Max: 1})
	served := make(chan error, 1)
	go func() { served <- server.Serve(gathered) }()
	get := func(c net.Conn, path string) {
		t.Helper()
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: plane\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	admin := dial(t, door.Addr().String())
	get(admin, "/admin")
	first := dial(t, door.Addr().String())
	get(first, "/")
	get(dial(t, door.Addr().String()), "/")
	if n, err := io.Copy(io.Discard, first); n != 0 || err != nil {
		t.Errorf("the first connection: %d bytes, %v", n, err)
	}
	get(admin, "/")
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// An error at a door is told, and keeps nobody from calling elsewhere.
func TestGatherOutlivesADoor(t *testing.T) {
	first, healthy := listen(t), listen(t)
	told := make(chan error, 3)
	tell := func(err error) { told <- err }
	gathered := Gather(t.Context(), first,
		Door{Listener: &failing{listen(t), []error{unix.EINVAL}}, OnError: tell},
		Door{Listener: &failing{healthy, []error{unix.EMFILE, unix.EMFILE}}, OnError: tell})
	t.Cleanup(func() { _ = gathered.Close() })
	for _, l := range []net.Listener{first, healthy} {
		go greeter(gathered, "hello")
		if got, err := io.ReadAll(dial(t, l.Addr().String())); err != nil || string(got) != "hello" {
			t.Errorf("at %s: got %q, %v", l.Addr(), got, err)
		}
	}
	got := map[error]int{}
	for range 2 {
		err := <-told
		for _, cause := range []error{unix.EINVAL, unix.EMFILE} {
			if errors.Is(err, cause) {
				got[cause]++
			}
		}
	}
	if got[unix.EINVAL] != 1 || got[unix.EMFILE] != 1 || len(told) > 0 {
		t.Errorf("told %v and %d more, want each cause once", got, len(told))
	}
}
