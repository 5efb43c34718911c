package nodeaddress

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A bridge named as an operator names it, over a VLAN, has the default route of IPv4; another interface has
// that of IPv6. What containers are on is none of the host's own.
func TestReadTheKernel(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for network namespaces")
	}
	runtime.LockOSThread() // The thread ends with the test, and its namespace with it.
	namespace, err := netns.New()
	if err != nil {
		rights.Skip(t, "no network namespace: ", err)
	}
	defer func() { _ = namespace.Close() }()
	up := func(l netlink.Link, master string) netlink.Link {
		t.Helper()
		must(t, netlink.LinkAdd(l))
		made, err := netlink.LinkByName(l.Attrs().Name)
		must(t, err)
		if master != "" {
			bridge, err := netlink.LinkByName(master)
			must(t, err)
			must(t, netlink.LinkSetMaster(made, bridge))
		}
		must(t, netlink.LinkSetUp(made))
		return made
	}
	address := func(l netlink.Link, text string, flags int) {
		t.Helper()
		a, err := netlink.ParseAddr(text)
		must(t, err)
		a.Flags = flags
		must(t, netlink.AddrAdd(l, a))
	}
	named := func(name string) netlink.LinkAttrs { return netlink.LinkAttrs{Name: name} }
	mgmt := up(&netlink.Bridge{LinkAttrs: named("br-mgmt")}, "")
	up(&netlink.Veth{LinkAttrs: named("pod1"), PeerName: "peer1"}, "br-mgmt")
	wan := up(&netlink.Veth{LinkAttrs: named("wan"), PeerName: "peer2"}, "")
	up(&netlink.Bridge{LinkAttrs: named("br-pods")}, "")
	peer, err := netlink.LinkByName("peer2")
	must(t, err)
	must(t, netlink.LinkSetUp(peer))
	address(mgmt, "172.31.9.9/32", 0) // An alias that was there before the address of the network.
	address(mgmt, "10.0.0.5/24", 0)
	address(wan, "192.0.2.5/24", 0)
	address(wan, "2001:db8:1::5/64", unix.IFA_F_NODAD)
	address(wan, "fd00::5/64", unix.IFA_F_NODAD) // The newest comes first.
	must(t, netlink.AddrAdd(wan, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP("fd00::200"), Mask: net.CIDRMask(128, 128)}, Flags: unix.IFA_F_NODAD, ValidLft: 60}))
	for _, r := range []netlink.Route{
		{LinkIndex: wan.Attrs().Index, Gw: net.ParseIP("192.0.2.1"), Priority: 200},
		{LinkIndex: mgmt.Attrs().Index, Gw: net.ParseIP("10.0.0.1"), Priority: 100},
		{LinkIndex: wan.Attrs().Index, Gw: net.ParseIP("fd00::1")},
	} {
		must(t, netlink.RouteAdd(&r))
	}
	interfaces, err := Read()
	must(t, err)
	found := map[string]Interface{}
	for _, i := range interfaces {
		found[i.Name] = i
	}
	if m := found["br-mgmt"]; !m.Default4 || m.Default6 || m.Hardware || len(m.Addresses) != 2 {
		t.Errorf("br-mgmt is %+v", m)
	}
	if w := found["wan"]; w.Default4 || !w.Default6 || len(w.Addresses) != 4 {
		t.Errorf("wan is %+v", w)
	}
	choice, err := Rule{}.Choose(interfaces, []bool{false, true}, Address{}.Addr)
	must(t, err)
	if choice.IPs[0].String() != "10.0.0.5" || choice.IPs[1].String() != "2001:db8:1::5" {
		t.Errorf("chosen %v: want the addresses that the kernel sends from", choice.IPs)
	}
	for _, i := range (Rule{}).Own(interfaces, nil) {
		if i.Name == "br-pods" {
			t.Error("a bridge that nothing of the host is on counts as its own")
		}
	}
}

func TestOnHardware(t *testing.T) {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1, MasterIndex: 2}}
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Index: 2})
	vlan := &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Index: 3, ParentIndex: 2, MasterIndex: 4}}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: 4}}
	pods := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Index: 5}}
	// A pod's end of a pair may have the number of hardware as its parent: that is of another namespace.
	pod := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Index: 6, MasterIndex: 5, ParentIndex: 1}}
	all := []netlink.Link{device, bond, vlan, bridge, pods, pod}
	for i, want := range []bool{true, true, true, true, false, false} {
		if got := onHardware(all[i], all, nil); got != want {
			t.Errorf("%s %d: on hardware %t, want %t", all[i].Type(), i+1, got, want)
		}
	}
}

// TestRoutesOfOtherTables: without a default route in the main table the kernel says by which interface it would send, and
// from which address. An address on lo counts, and 127.0.0.1 does not.
func TestRoutesOfOtherTables(t *testing.T) {
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for network namespaces")
	}
	const table = 1000
	_, all4, err := net.ParseCIDR("0.0.0.0/0")
	must(t, err)
	_, low, err := net.ParseCIDR("128.0.0.0/1")
	must(t, err)
	_, all6, err := net.ParseCIDR("::/0")
	must(t, err)
	for name, routes := range map[string][]netlink.Route{
		"by a rule": {{Dst: all4, Gw: net.ParseIP("10.0.0.1"), Table: table}, {Dst: all6, Gw: net.ParseIP("fd00::1"), Table: table}},
		"by halves": {{Dst: low, Gw: net.ParseIP("10.0.0.1"), Src: net.ParseIP("10.255.0.5")}, {Dst: all6, Gw: net.ParseIP("fd00::1")}},
		"none":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // The thread ends with the test, and its namespace with it.
			namespace, err := netns.New()
			if err != nil {
				rights.Skip(t, "no network namespace: ", err)
			}
			defer func() { _ = namespace.Close() }()
			lo, err := netlink.LinkByName("lo")
			must(t, err)
			must(t, netlink.LinkSetUp(lo))
			for _, link := range []string{"other", "wan"} {
				must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: link}, PeerName: link + "-peer"}))
				for _, end := range []string{link, link + "-peer"} {
					l, err := netlink.LinkByName(end)
					must(t, err)
					must(t, netlink.LinkSetUp(l))
				}
			}
			wan, err := netlink.LinkByName("wan")
			must(t, err)
			other, err := netlink.LinkByName("other")
			must(t, err)
			for text, on := range map[string]netlink.Link{"10.255.0.5/32": lo, "10.0.0.5/24": wan, "fd00::5/64": wan, "192.0.2.5/24": other, "fd01::5/64": other} {
				a, err := netlink.ParseAddr(text)
				must(t, err)
				if a.IP.To4() == nil {
					a.Flags = unix.IFA_F_NODAD
				}
				must(t, netlink.AddrAdd(on, a))
			}
			for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
				rule := netlink.NewRule()
				rule.Family, rule.Table, rule.Priority = family, table, 500
				must(t, netlink.RuleAdd(rule))
			}
			for _, r := range routes {
				r.LinkIndex = wan.Attrs().Index
				must(t, netlink.RouteAdd(&r))
			}
			interfaces, err := Read()
			must(t, err)
			if len(interfaces) == 0 || interfaces[0].Name != "lo" || len(interfaces[0].Addresses) != 1 {
				t.Errorf("lo is %+v", interfaces)
			}
			choice, err := Rule{}.Choose(interfaces, []bool{false, true}, Address{}.Addr)
			want := map[string]string{"by a rule": "[10.0.0.5 fd00::5]", "by halves": "[10.255.0.5 fd00::5]", "none": "[]"}[name]
			if got := fmt.Sprint(choice.IPs); got != want || (err != nil) != (routes == nil) {
				t.Errorf("chosen %s, %v, want %s", got, err, want)
			}
		})
	}
}
