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
	default4, err := defaultRoute(netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	default6, err := defaultRoute(netlink.FAMILY_V6)
	if err != nil {
		return nil, err
	}
	var all []Interface
	for _, l := range links {
		attrs := l.Attrs()
		if attrs.Flags&net.FlagUp == 0 {
			continue
		}
		i := Interface{
			Name: attrs.Name, Kind: l.Type(), Loopback: attrs.Flags&net.FlagLoopback != 0, Hardware: onHardware(l, links, nil),
			Default4: attrs.Index == default4.LinkIndex, Default6: attrs.Index == default6.LinkIndex,
		}
		if i.Default4 {
			i.Source4 = source(default4, default4.Gw)
		}
		if i.Default6 {
			i.Source6 = source(default6, farAway)
		}
		for _, a := range addresses {
			ip, ok := netip.AddrFromSlice(a.IP)
			if ip = ip.Unmap(); !ok || a.LinkIndex != attrs.Index || ip.IsLinkLocalUnicast() || ip.IsLoopback() {
				continue
			}
			const unstable = unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
			temporary := ip.Is6() && a.Flags&unix.IFA_F_TEMPORARY != 0
			i.Addresses = append(i.Addresses, Address{Addr: ip, Unstable: temporary || a.Flags&unstable != 0})
		}
		if !i.Loopback || len(i.Addresses) > 0 {
			all = append(all, i)
		}
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

// farAway is an address of IPv6 that no network has. The router of a default route usually has a link-local
// one, which the kernel answers by another.
var farAway = net.ParseIP("2000::1")

// source is the address that the kernel sends from to another one by a route: the one that the route says,
// or else one that fits. It is not valid when there is none.
func source(r netlink.Route, to net.IP) netip.Addr {
	from := r.Src
	if from == nil && to != nil {
		found, err := netlink.RouteGetWithOptions(to, &netlink.RouteGetOptions{OifIndex: r.LinkIndex})
		if err != nil || len(found) == 0 {
			return netip.Addr{}
		}
		from = found[0].Src
	}
	ip, _ := netip.AddrFromSlice(from)
	return ip.Unmap()
}

// farAway4 is that of IPv4: the dummy address of RFC 7600.
var farAway4 = net.IPv4(192, 0, 0, 8)

// defaultRoute is that of a family, without an interface when there is none. Of several the kernel
// lists the one with the least metric first. Without one in the main table the kernel says where it would send to
// an address far away: by a rule that leads to another table, or by two routes that are a half each.
func defaultRoute(family int) (netlink.Route, error) {
	routes, err := network.ReadAll(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
	if err != nil {
		return netlink.Route{}, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones > 0 || !r.Dst.IP.IsUnspecified() {
				continue
			}
		}
		if len(r.MultiPath) > 0 {
			r.LinkIndex, r.Gw = r.MultiPath[0].LinkIndex, r.MultiPath[0].Gw
		}
		if r.Type == unix.RTN_UNICAST && r.LinkIndex != 0 {
			return r, nil
		}
	}
	to := farAway
	if family == netlink.FAMILY_V4 {
		to = farAway4
	}
	found, err := netlink.RouteGet(to)
	if err != nil || len(found) == 0 || found[0].Type != unix.RTN_UNICAST {
		return netlink.Route{}, nil //nolint:nilerr // there is no way to it
	}
	return netlink.Route{LinkIndex: found[0].LinkIndex, Src: found[0].Src}, nil
}
