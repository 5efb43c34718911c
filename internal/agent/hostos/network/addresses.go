package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Address is an address of an interface.
type Address struct {
	Link   string
	Prefix netip.Prefix
}

// Addresses lists the addresses of the interfaces that are up, without loopback and
// link-local ones.
func Addresses() ([]Address, error) {
	links, err := ReadAll(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var all []Address
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.Flags&net.FlagLoopback != 0 || attrs.Flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := ReadAll(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
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
