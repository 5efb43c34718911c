package vip

import (
	"fmt"
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

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// twoHosts connects two network namespaces as hosts on one network, eth0 in each,
// and moves the test into the first. It returns a function that does something in
// the second.
func twoHosts(t *testing.T) (inSecond func(func())) {
	t.Helper()
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for network namespaces")
	}
	// The thread is not unlocked: it ends with the test and its namespaces with it.
	runtime.LockOSThread()
	second, err := netns.New()
	if err != nil {
		rights.Skip(t, "no network namespace: ", err)
	}
	first, err := netns.New()
	must(t, err)
	t.Cleanup(func() { _, _ = second.Close(), first.Close() })
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(second))}))
	inSecond = func(f func()) {
		must(t, netns.Set(second))
		f()
		must(t, netns.Set(first))
	}
	configure := func(address string) {
		link, err := netlink.LinkByName("eth0")
		must(t, err)
		must(t, netlink.LinkSetUp(link))
		parsed, err := netlink.ParseAddr(address)
		must(t, err)
		must(t, netlink.AddrAdd(link, parsed))
	}
	configure("10.88.0.11/24")
	inSecond(func() { configure("10.88.0.12/24") })
	return inSecond
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func held(t *testing.T, h Holder) bool {
	t.Helper()
	held, err := h.Held(virtual)
	must(t, err)
	return held
}

func TestKernelRemovesTheAddressItself(t *testing.T) {
	twoHosts(t)
	h := Holder{Network: Kernel{}, Log: slog.New(slog.DiscardHandler)}
	// Renewing a lifetime must not take the address away for a moment.
	updates, done := make(chan netlink.AddrUpdate, 100), make(chan struct{})
	defer close(done)
	must(t, netlink.AddrSubscribe(updates, done))
	begin := time.Now()
	for time.Since(begin) < 3*time.Second {
		must(t, h.Hold(virtual, 2*time.Second))
		if !held(t, h) {
			t.Fatal("the address went although its lifetime was renewed")
		}
		time.Sleep(200 * time.Millisecond)
	}
	for len(updates) > 0 {
		if u := <-updates; !u.NewAddr && u.LinkAddress.IP.String() == virtual.String() {
			t.Error("the address was away for a moment")
		}
	}
	renewed := time.Now()
	must(t, h.Hold(virtual, 2*time.Second))
	poll.True(t, "the kernel removes the address", func() bool { return !held(t, h) })
	// LeaseDuration - RenewDeadline is what the kernel may be late.
	if took := time.Since(renewed); took < time.Second || took > 2*time.Second+(LeaseDuration-RenewDeadline) {
		t.Errorf("a lifetime of 2 s ended after %s", took)
	}
}

func TestProbeFindsAnotherHolder(t *testing.T) {
	inSecond := twoHosts(t)
	h := Holder{Network: Kernel{}, Log: slog.New(slog.DiscardHandler)}
	begin := time.Now()
	mac, err := h.Duplicate(virtual)
	if err != nil || mac != "" {
		t.Fatalf("%q answers for an address nobody has: %v", mac, err)
	}
	t.Logf("nobody answered within %s", time.Since(begin))
	var want string
	inSecond(func() {
		must(t, h.Hold(virtual, time.Minute))
		link, err := netlink.LinkByName("eth0")
		must(t, err)
		want = link.Attrs().HardwareAddr.String()
		if got := h.MAC(virtual); got != want {
			t.Errorf("its own MAC address is %q, want %s", got, want)
		}
	})
	if mac, err := h.Duplicate(virtual); err != nil || mac != want {
		t.Fatalf("%q answers, want %s: %v", mac, want, err)
	}
	inSecond(func() { must(t, h.Release(virtual)) })
	if mac, err := h.Duplicate(virtual); err != nil || mac != "" {
		t.Fatalf("%q answers after the release: %v", mac, err)
	}
	must(t, h.Hold(virtual, time.Minute))
	if mac, err := h.Duplicate(virtual); err != nil || mac != "" {
		t.Fatalf("this host is in conflict with itself, %q: %v", mac, err)
	}
}

// A host with two interfaces on one network answers for an address of the one on the other:
// it is no duplicate of its own.
func TestHostIsNoDuplicateOfItsOwn(t *testing.T) {
	inSecond := twoHosts(t)
	first, err := netns.Get()
	must(t, err)
	defer func() { _ = first.Close() }()
	up := func(name string) netlink.Link {
		link, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(link))
		return link
	}
	inSecond(func() {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "eth1", PeerNamespace: netlink.NsFd(int(first))}))
		must(t, netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "network"}}))
		bridge := up("network")
		for _, port := range []string{"eth0", "eth1"} {
			must(t, netlink.LinkSetMaster(up(port), bridge))
		}
	})
	answers := up("eth1").Attrs().HardwareAddr.String()
	h := Holder{Network: Kernel{}, Log: slog.New(slog.DiscardHandler)}
	must(t, h.Hold(virtual, time.Minute))
	a, err := openARP("eth0")
	must(t, err)
	defer a.close()
	a.own = nil
	poll.Until(t, answers+" answers on the network", func() error {
		must(t, a.request(netip.IPv4Unspecified(), virtual))
		mac, err := a.answer(virtual, probePause)
		must(t, err)
		if mac != answers {
			return fmt.Errorf("%q does", mac)
		}
		return nil
	})
	if mac, err := h.Duplicate(virtual); err != nil || mac != "" {
		t.Errorf("its own interface %q is taken for another machine: %v", mac, err)
	}
}

// The kernel asks for the neighbour with an IPv6 address as it does for any other.
func TestProbeFindsAnotherHolderOfIPv6(t *testing.T) {
	inSecond := twoHosts(t)
	linkLocal(t)
	inSecond(func() { linkLocal(t) })
	h, ip := Holder{Network: Kernel{}, Log: slog.New(slog.DiscardHandler)}, netip.MustParseAddr("fd00:88::200")
	nobody := func(when string) {
		t.Helper()
		if mac, err := h.Duplicate(ip); err != nil || mac != "" {
			t.Fatalf("%s: %q answers, %v", when, mac, err)
		}
	}
	nobody("an address that nobody has")
	var want string
	inSecond(func() {
		must(t, h.Hold(ip, time.Minute))
		link, err := netlink.LinkByName("eth0")
		must(t, err)
		want = link.Attrs().HardwareAddr.String()
	})
	poll.Until(t, want+" answers", func() error {
		mac, err := h.Duplicate(ip)
		must(t, err)
		if mac != want {
			return fmt.Errorf("%q does", mac)
		}
		return nil
	})
	// The neighbour table still names the second host; it is asked anew.
	inSecond(func() { must(t, h.Release(ip)) })
	nobody("after the release")
	must(t, h.Hold(ip, time.Minute))
	nobody("this host itself")
}

// linkLocal waits until the interface has the address that the kernel asks from: it first
// looks itself whether another one has it.
func linkLocal(t *testing.T) {
	t.Helper()
	link, err := netlink.LinkByName("eth0")
	must(t, err)
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_V6)
		must(t, err)
		for _, a := range addresses {
			if a.IP.IsLinkLocalUnicast() && a.Flags&unix.IFA_F_TENTATIVE == 0 {
				return
			}
		}
		if time.Since(begin) > 20*time.Second {
			rights.Skip(t, "no link-local address of IPv6: ", addresses)
		}
	}
}

// TestAnnouncementMovesTheAddress looks at the neighbour table of the second host.
func TestAnnouncementMovesTheAddress(t *testing.T) {
	for _, virtual := range []netip.Addr{virtual, netip.MustParseAddr("fd00:88::200")} {
		t.Run(virtual.String(), func(t *testing.T) { announcementMoves(t, virtual) })
	}
}

func announcementMoves(t *testing.T, virtual netip.Addr) {
	inSecond := twoHosts(t)
	neighbour := func() (mac string) {
		inSecond(func() {
			neighbours, err := netlink.NeighList(0, netlink.FAMILY_ALL)
			must(t, err)
			for _, n := range neighbours {
				if ip, _ := netip.AddrFromSlice(n.IP); ip.Unmap() == virtual {
					mac = n.HardwareAddr.String()
				}
			}
		})
		return mac
	}
	inSecond(func() {
		link, err := netlink.LinkByName("eth0")
		must(t, err)
		must(t, netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: virtual.AsSlice(), HardwareAddr: []byte{2, 0, 0, 0, 0, 1}, State: netlink.NUD_REACHABLE,
		}))
	})
	link, err := netlink.LinkByName("eth0")
	must(t, err)
	must(t, Holder{Network: Kernel{}, Log: slog.New(slog.DiscardHandler)}.Hold(virtual, time.Minute))
	poll.Until(t, "the neighbour sends to the host", func() error {
		if to := neighbour(); to != link.Attrs().HardwareAddr.String() {
			return fmt.Errorf("it sends to %s", to)
		}
		return nil
	})
}

// The virtual address is never the host's own: what the host sends has another source, and whoever
// takes the first address of the interface finds another one, also after the network was configured anew.
func TestVirtualAddressIsNotTheHostsOwn(t *testing.T) {
	twoHosts(t)
	link, err := netlink.LinkByName("eth0")
	must(t, err)
	own6 := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP("fd00:88::11"), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}
	must(t, netlink.AddrAdd(link, own6))
	must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}, Gw: net.ParseIP("fd00:88::1")}))
	h := Holder{Network: Kernel{}, Log: slog.New(slog.DiscardHandler)}
	virtual6 := netip.MustParseAddr("fd00:88::200")
	look := func(when string) {
		t.Helper()
		for range 2 { // As when it is renewed.
			must(t, h.Hold(virtual, time.Minute))
			must(t, h.Hold(virtual6, time.Minute))
		}
		for to, want := range map[string]string{"fd00:88::12": "fd00:88::11", "2001:db8::1": "fd00:88::11", "10.88.0.12": "10.88.0.11"} {
			routes, err := netlink.RouteGet(net.ParseIP(to))
			must(t, err)
			if got := routes[0].Src.String(); got != want {
				t.Errorf("%s: to %s the host sends from %s, want %s", when, to, got, want)
			}
		}
		v4, err := netlink.AddrList(link, netlink.FAMILY_V4)
		must(t, err)
		if len(v4) != 2 || v4[1].IP.String() != virtual.String() || v4[1].Mask.String() != "ffffffff" {
			t.Errorf("%s: the addresses are %v, want the virtual one as /32 and last", when, v4)
		}
		v6, err := netlink.AddrList(link, netlink.FAMILY_V6)
		must(t, err)
		for _, a := range v6 {
			if a.IP.String() == virtual6.String() && (a.Flags&unix.IFA_F_DEPRECATED == 0 || a.PreferedLft != 0 || a.ValidLft == 0) {
				t.Errorf("%s: the virtual address has flags %#x, preferred for %d s, valid for %d s; want it deprecated", when, a.Flags, a.PreferedLft, a.ValidLft)
			}
		}
	}
	look("held")
	for _, own := range []*netlink.Addr{own6, {IPNet: &net.IPNet{IP: net.IPv4(10, 88, 0, 11), Mask: net.CIDRMask(24, 32)}}} {
		must(t, netlink.AddrDel(link, own))
		must(t, netlink.AddrAdd(link, own))
	}
	look("after the network was configured anew")
}
