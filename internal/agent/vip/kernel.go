package vip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// Kernel is the Network of the network namespace the agent runs in.
type Kernel struct{}

// Addresses implements Network.
func (Kernel) Addresses() ([]network.Address, error) { return network.Addresses() }

// DefaultLink implements Network. A host with IPv6 alone has its default route there.
func (Kernel) DefaultLink() (string, error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := network.ReadAll(func() ([]netlink.Route, error) { return netlink.RouteList(nil, family) })
		if err != nil {
			return "", fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if link := defaultLink(r); link != "" {
				return link, nil
			}
		}
	}
	return "", nil
}

// MAC implements Network.
func (Kernel) MAC(name string) string {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return ""
	}
	return link.Attrs().HardwareAddr.String()
}

// Add implements Network.
func (Kernel) Add(name string, p netip.Prefix, lifetime time.Duration) error {
	link, addr, err := target(name, p)
	if err != nil {
		return err
	}
	// The kernel counts whole seconds, and takes 0 for ever.
	seconds := max(1, int(lifetime/time.Second))
	addr.ValidLft, addr.PreferedLft = seconds, seconds
	return netlink.AddrReplace(link, addr)
}

// Remove implements Network.
func (Kernel) Remove(name string, p netip.Prefix) error {
	link, addr, err := target(name, p)
	if err != nil {
		return err
	}
	if err := netlink.AddrDel(link, addr); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

func target(name string, p netip.Prefix) (netlink.Link, *netlink.Addr, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, nil, err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		// Duplicate detection would delay the address by a second.
		addr.Flags = unix.IFA_F_NODAD
	}
	return link, addr, nil
}

// defaultLink is the interface of a default route, the first of several; empty for another route.
func defaultLink(r netlink.Route) string {
	if r.Dst != nil {
		if ones, _ := r.Dst.Mask.Size(); ones > 0 || !r.Dst.IP.IsUnspecified() {
			return ""
		}
	}
	if r.Type != unix.RTN_UNICAST {
		return ""
	}
	index := r.LinkIndex
	if len(r.MultiPath) > 0 {
		index = r.MultiPath[0].LinkIndex
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return ""
	}
	return link.Attrs().Name
}
