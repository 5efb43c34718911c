package cli

import (
	"context"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// takeOver passes sockets of this machine through outsideOf, as if the plane listened there
// for the address that was chosen.
func takeOver(t *testing.T, config instance.Config, sockets ...string) (*serve.Outside, []*network.Forwarder) {
	t.Helper()
	files := map[string]*os.File{}
	for i, address := range sockets {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[outsideListener+strconv.Itoa(i)] = f
	}
	outside, forwarders, err := outsideOf(&instance.Instance{Config: config}, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range forwarders {
		t.Cleanup(func() { _ = f.Listener.Close() })
	}
	return outside, forwarders
}

// The certificate is for what hosts call the plane, never for an address that stands for all.
func TestOutsideSubjects(t *testing.T) {
	for _, c := range []struct {
		listen, tlsNames, socket string
		addresses, names         []string
	}{
		{"127.0.0.1:6443", "", "127.0.0.1:0", []string{"127.0.0.1"}, nil},
		{"plane.example", "", "127.0.0.1:0", []string{"127.0.0.1"}, []string{"plane.example"}},
		{"0.0.0.0", "plane.example,203.0.113.9", "0.0.0.0:0", []string{"203.0.113.9"}, []string{"plane.example"}},
		{"[::]:443", "plane.example", "[::]:0", nil, []string{"plane.example"}},
	} {
		outside, _ := takeOver(t, instance.Config{Listen: c.listen, TLSNames: c.tlsNames, APIPort: instance.DefaultAPIPort}, c.socket)
		ips, names := outside.Subjects()
		var addresses []string
		for _, ip := range ips {
			addresses = append(addresses, ip.String())
		}
		slices.Sort(addresses)
		if !slices.Equal(slices.Compact(addresses), c.addresses) || !slices.Equal(names, c.names) {
			t.Errorf("--listen %s --tls-san %q: the certificate is for %v and %v, want %v and %v", c.listen, c.tlsNames, addresses, names, c.addresses, c.names)
		}
	}
}

// Connections from outside leave half of the descriptors to the plane, at all addresses
// together, and one connection gets through whatever the limit.
func TestConnectionsAt(t *testing.T) {
	for _, c := range []struct {
		addresses   int
		descriptors uint64
		want        int
	}{
		{1, 1 << 20, outsideConnections},
		{1, math.MaxUint64, outsideConnections},
		{1, 20000, 1428},
		{2, 20000, 714},
		{1, 1024, 73},
		{4, 16, 1},
	} {
		got := connectionsAt(c.addresses, c.descriptors)
		if got != c.want || got > 1 && uint64(got*c.addresses*outsideDescriptors) > c.descriptors/2 {
			t.Errorf("at %d addresses with %d descriptors: %d connections, want %d", c.addresses, c.descriptors, got, c.want)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	_, forwarders := takeOver(t, instance.Config{Listen: "plane.example"}, "127.0.0.1:0", "127.0.0.1:0")
	for _, f := range forwarders {
		if want := connectionsAt(2, limit.Cur); f.Max != want {
			t.Errorf("%s takes %d connections, want %d", f.Listener.Addr(), f.Max, want)
		}
	}
}

// A connection takes as many descriptors as it is counted for, while it copies both ways.
func TestOutsideDescriptors(t *testing.T) {
	_, forwarders := takeOver(t, instance.Config{Listen: "plane.example"}, "127.0.0.1:0")
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	go answer(target)
	f := forwarders[0]
	f.Dial = func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target.Addr().String())
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx) }()
	const connections, slack = 16, 8 // of the tests before, and of the runtime
	before := descriptors(t)
	for range connections {
		c, err := net.Dial("tcp", f.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	// The client's end is in this process, too.
	if got := descriptors(t) - before; got > connections*(outsideDescriptors+1)+slack {
		t.Errorf("%d connections take %d descriptors, %d are counted for each", connections, got-connections, outsideDescriptors)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// answer answers each connection with the first byte of it, and keeps it open.
func answer(l net.Listener) {
	for c, err := l.Accept(); err == nil; c, err = l.Accept() {
		go func() {
			defer c.Close()
			for first := make([]byte, 1); ; {
				if _, err := c.Read(first); err != nil {
					return
				}
				if _, err := c.Write(first); err != nil {
					return
				}
			}
		}()
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}
