package nodeaddress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// Read lists the interfaces of the network namespace that the agent runs in.
func Read() ([]Interface, error) {
	links, err := network.ReadAll(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	addresses, err := network.ReadAll(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	default4, err := defaultLink(netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	default6, err := defaultLink(netlink.FAMILY_V6)
	if err != nil {
		return nil, err
	}
	var all []Interface
	for _, l := range links {
		attrs := l.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 || attrs.Flags&net.FlagUp == 0 {
			continue
		}
		i := Interface{
			Name: attrs.Name, Kind: l.Type(), Hardware: onHardware(l, links, nil),
			Default4: attrs.Index == default4, Default6: attrs.Index == default6,
		}
		for _, a := range addresses {
			ip, ok := netip.AddrFromSlice(a.IP)
			if ip = ip.Unmap(); !ok || a.LinkIndex != attrs.Index || ip.IsLinkLocalUnicast() {
				continue
			}
			const unstable = unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
			temporary := ip.Is6() && a.Flags&unix.IFA_F_TEMPORARY != 0
			i.Addresses = append(i.Addresses, Address{Addr: ip, Unstable: temporary || a.Flags&unstable != 0})
		}
		all = append(all, i)
	}
	return all, nil
}

// onHardware follows bonds, bridges and VLANs down to what they are built on. seen ends a circle.
func onHardware(l netlink.Link, links []netlink.Link, seen []int) bool {
	index := l.Attrs().Index
	if slices.Contains(seen, index) {
		return false
	}
	seen = append(seen, index)
	switch l.Type() {
	case "device":
		return l.Attrs().Flags&net.FlagLoopback == 0
	case "bond", "team", "bridge":
		return slices.ContainsFunc(links, func(port netlink.Link) bool {
			return port.Attrs().MasterIndex == index && onHardware(port, links, seen)
		})
	case "vlan", "macvlan", "macvtap", "ipvlan":
		return slices.ContainsFunc(links, func(below netlink.Link) bool {
			return below.Attrs().Index == l.Attrs().ParentIndex && onHardware(below, links, seen)
		})
	}
	return false
}

// defaultLink is the index of the interface of the default route; 0 without one. Of several the kernel
// lists the one with the least metric first.
func defaultLink(family int) (int, error) {
	routes, err := network.ReadAll(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
	if err != nil {
		return 0, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones > 0 || !r.Dst.IP.IsUnspecified() {
				continue
			}
		}
		index := r.LinkIndex
		if len(r.MultiPath) > 0 {
			index = r.MultiPath[0].LinkIndex
		}
		if r.Type == unix.RTN_UNICAST && index != 0 {
			return index, nil
		}
	}
	return 0, nil
}
