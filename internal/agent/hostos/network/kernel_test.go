package network_test

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// inNamespace moves the test into a network namespace of its own, with eth0 at
// 10.0.0.5/24.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for a network namespace")
	}
	// The thread is not unlocked: it ends with the test and its namespace with it.
	runtime.LockOSThread()
	if _, err := netns.New(); err != nil {
		rights.Skip(t, "no network namespace:", err)
	}
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer0"}))
	for _, name := range []string{"lo", "eth0", "peer0"} {
		must(t, netlink.LinkSetUp(link(t, name)))
	}
	address, err := netlink.ParseAddr("10.0.0.5/24")
	must(t, err)
	must(t, netlink.AddrAdd(link(t, "eth0"), address))
	must(t, netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(10, 0, 0, 1)}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	return l
}

// TestKernelFindsTheDefaultLink: a second interface has the default route, of either family.
func TestKernelFindsTheDefaultLink(t *testing.T) {
	unicast := func(to, via string) netlink.Route {
		_, dst, err := net.ParseCIDR(to)
		must(t, err)
		return netlink.Route{Dst: dst, Gw: net.ParseIP(via)}
	}
	metric := func(r netlink.Route, m int) netlink.Route {
		r.Priority = m
		return r
	}
	for name, c := range map[string]struct {
		routes   []netlink.Route
		want, v6 string
	}{
		"none":                  {nil, "", ""},
		"IPv4":                  {[]netlink.Route{unicast("0.0.0.0/0", "10.1.0.1")}, "eth1", ""},
		"IPv6 alone":            {[]netlink.Route{unicast("::/0", "fd01::1")}, "", "eth1"},
		"both":                  {[]netlink.Route{unicast("::/0", "fd01::1"), unicast("0.0.0.0/0", "10.0.0.1")}, "eth0", "eth1"},
		"half of all addresses": {[]netlink.Route{unicast("0.0.0.0/1", "10.0.0.1"), unicast("0.0.0.0/0", "10.1.0.1")}, "eth1", ""},
		"over two gateways":     {[]netlink.Route{{Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, MultiPath: []*netlink.NexthopInfo{{Gw: net.IPv4(10, 1, 0, 1)}, {Gw: net.IPv4(10, 0, 0, 1)}}}}, "eth1", ""},
		"least metric":          {[]netlink.Route{metric(unicast("0.0.0.0/0", "10.0.0.1"), 100), metric(unicast("0.0.0.0/0", "10.1.0.1"), 50)}, "eth1", ""},
		"nowhere, but for IPv6": {[]netlink.Route{{Type: unix.RTN_UNREACHABLE, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}, unicast("::/0", "fd01::1")}, "", "eth1"},
	} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t)
			must(t, netlink.RouteDel(&netlink.Route{Gw: net.IPv4(10, 0, 0, 1)}))
			must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "peer1"}))
			for _, name := range []string{"eth1", "peer1"} {
				must(t, netlink.LinkSetUp(link(t, name)))
			}
			for _, text := range []string{"10.1.0.5/24", "fd01::5/64"} {
				address, err := netlink.ParseAddr(text)
				must(t, err)
				address.Flags = unix.IFA_F_NODAD
				must(t, netlink.AddrAdd(link(t, "eth1"), address))
			}
			for _, r := range c.routes {
				must(t, netlink.RouteAdd(&r))
			}
			for _, want := range []struct {
				v6   bool
				link string
			}{{false, c.want}, {true, c.v6}} {
				if got, err := (vip.Kernel{}).DefaultLink(want.v6); err != nil || got != want.link {
					t.Errorf("the interface of the default route (IPv6: %t) is %q, want %q: %v", want.v6, got, want.link, err)
				}
			}
		})
	}
}

func TestKernelHoldsAVirtualIP(t *testing.T) {
	inNamespace(t)
	h := vip.Holder{Network: vip.Kernel{}, Log: slog.New(slog.DiscardHandler)}
	for _, address := range []string{"10.0.0.200", "fd00::200"} {
		ip := netip.MustParseAddr(address)
		for range 2 {
			must(t, h.Hold(ip, time.Minute))
		}
		if held, err := h.Held(ip); !held || err != nil {
			t.Fatalf("%s is not held: %v", ip, err)
		}
		must(t, vip.Kernel{}.Announce("eth0", ip))
		for range 2 {
			must(t, h.Release(ip))
		}
		if held, err := h.Held(ip); held || err != nil {
			t.Fatalf("%s is still held: %v", ip, err)
		}
	}
}
