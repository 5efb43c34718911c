package vip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/netdump"
)

// Kernel is the Network of the network namespace the agent runs in.
type Kernel struct{}

// Addresses implements Network.
func (Kernel) Addresses() ([]Address, error) {
	links, err := netdump.Read(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var all []Address
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 || attrs.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := netdump.Read(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
		if gone := (netlink.LinkNotFoundError{}); errors.As(err, &gone) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", attrs.Name, err)
		}
		for _, a := range addrs {
			ip, ok := netip.AddrFromSlice(a.IP)
			if ones, _ := a.Mask.Size(); ok && !ip.IsLinkLocalUnicast() {
				all = append(all, Address{Link: attrs.Name, Prefix: netip.PrefixFrom(ip.Unmap(), ones)})
			}
		}
	}
	return all, nil
}

// DefaultLink implements Network.
func (Kernel) DefaultLink() (string, error) {
	routes, err := netdump.Read(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return "", fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
			return link.Attrs().Name, nil
		}
	}
	return "", nil
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
