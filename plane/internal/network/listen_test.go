package network

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inNetwork runs fn where the gateway's address is this machine's.
func inNetwork(t *testing.T, fn func() error) {
	t.Helper()
	name := newNetwork(t)
	if err := inNamespace(Path(name), fn); err != nil {
		t.Fatal(err)
	}
}

func TestListenAt(t *testing.T) {
	inNetwork(t, func() error {
		held, err := ListenAt(t.Context(), Gateway.String(), 6443)
		if err != nil {
			return err
		}
		defer func() { _ = closeAll(held) }()
		for _, c := range []struct {
			host, want string
			cause      error
		}{
			{Gateway.String(), "ss -ltnp sport = :6443", unix.EADDRINUSE},
			{"10.88.0.77", "no such address", unix.EADDRNOTAVAIL},
			{"127.0.0.1", "no other one reaches", errLoopback},
			{"::1", "no other one reaches", errLoopback},
			{"localhost", "no other one reaches", errLoopback},
			{"name.invalid", "/etc/hosts", nil},
		} {
			err := TryListenAt(t.Context(), c.host, 6443, nil)
			var refused *ListenError
			if !errors.As(err, &refused) || refused.Host != c.host || !strings.Contains(err.Error(), c.want) || c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%s: %v, want %q", c.host, err, c.want)
			}
		}
		if err := TryListenAt(t.Context(), Gateway.String(), 6444, nil); err != nil {
			t.Errorf("another port: %v", err)
		}
		return closeAll(held)
	})
}

// What is held is free later on; what another program has is not, also when the port is the
// same, and when the address stands for all.
func TestTryListenAtBesideWhatIsHeld(t *testing.T) {
	inNetwork(t, func() error {
		const port = 6443
		mine, other := netip.AddrPortFrom(Gateway, port), netip.MustParseAddrPort("10.88.0.77:6443")
		if err := addAddress(other.Addr()); err != nil {
			return err
		}
		check := func(what string, host netip.Addr, free bool, held ...netip.AddrPort) {
			t.Helper()
			err := TryListenAt(t.Context(), host.String(), port, held)
			if free && err != nil || !free && !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("%s: %v, want it to be free: %t", what, err, free)
			}
		}
		all := netip.IPv4Unspecified()
		plane, err := listenTCP(t.Context(), mine)
		if err != nil {
			return err
		}
		check("the same address", mine.Addr(), true, mine)
		check("of another port", mine.Addr(), false, netip.AddrPortFrom(Gateway, port+1))
		check("every address", all, true, mine)
		check("every address, of another port", all, false, netip.AddrPortFrom(Gateway, port+1))
		program, err := listenTCP(t.Context(), other)
		if err != nil {
			return err
		}
		check("another program's address", other.Addr(), false, mine)
		check("every address, another program's too", all, false, mine)
		if err := closeAll([]*net.TCPListener{plane, program}); err != nil {
			return err
		}
		if plane, err = listenTCP(t.Context(), netip.AddrPortFrom(all, port)); err != nil {
			return err
		}
		everywhere := netip.MustParseAddrPort(plane.Addr().String())
		check("one of all that are held", other.Addr(), true, everywhere)
		check("all that are held", all, true, everywhere)
		return plane.Close()
	})
}

// addAddress gives the bridge of this namespace another address.
func addAddress(ip netip.Addr) error {
	bridge, err := netlink.LinkByName(Bridge)
	if err != nil {
		return err
	}
	return netlink.AddrAdd(bridge, &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(32, 32)}})
}

func TestGone(t *testing.T) {
	inNetwork(t, func() error {
		gone, err := Gone([]string{Gateway.String() + ":1", "0.0.0.0:1", "[::]:1", "10.88.0.77:1"})
		if err == nil && !slices.Equal(gone, []string{"10.88.0.77"}) {
			t.Errorf("gone are %v", gone)
		}
		return err
	})
}
