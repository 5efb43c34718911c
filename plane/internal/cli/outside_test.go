package cli

import (
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// takeOver passes sockets of this machine through outsideOf, as if the plane listened there
// for the address that was chosen.
func takeOver(t *testing.T, config instance.Config, sockets ...string) (*statedir.Outside, []network.Door) {
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
	outside, doors, err := outsideOf(&instance.Instance{Config: config}, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range doors {
		t.Cleanup(func() { _ = d.Listener.Close() })
	}
	return outside, doors
}

// TestTheFirstPortIsReported holds that of two ports that cannot be opened the one of --listen is
// reported, each time.
func TestTheFirstPortIsReported(t *testing.T) {
	inst := &instance.Instance{Config: instance.Config{Listen: "127.0.0.1:7443", APIPort: instance.DefaultAPIPort}}
	for range 20 {
		err := listenOutside(t.Context(), inst, map[string]*os.File{})
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:7443") {
			t.Fatalf("a plane cannot listen on the loopback for other machines: %v", err)
		}
	}
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
		{1, 10000, 2222},
		{2, 10000, 1111},
		{1, 1024, 227},
		{4, 16, 1},
	} {
		got := connectionsAt(c.addresses, c.descriptors)
		if got != c.want || got > 1 && uint64((2*got+got/4)*c.addresses) > c.descriptors/2 {
			t.Errorf("at %d addresses with %d descriptors: %d connections, want %d", c.addresses, c.descriptors, got, c.want)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	_, doors := takeOver(t, instance.Config{Listen: "plane.example"}, "127.0.0.1:0", "127.0.0.1:0")
	for _, d := range doors {
		if want := connectionsAt(2, limit.Cur); d.Max != want {
			t.Errorf("%s takes %d connections, want %d", d.Listener.Addr(), d.Max, want)
		}
	}
}
