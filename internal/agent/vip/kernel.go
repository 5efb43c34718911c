package vip

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
)

// Kernel is the Network of the network namespace the agent runs in.
type Kernel struct{}

// Addresses implements Network.
func (Kernel) Addresses() ([]network.Address, error) { return network.Addresses() }

// DefaultLink implements Network.
func (Kernel) DefaultLink(v6 bool) (string, error) {
	interfaces, err := nodeaddress.Read()
	if err != nil {
		return "", err
	}
	for _, i := range interfaces {
		if i.Default4 && !v6 || i.Default6 && v6 {
			return i.Name, nil
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
	addr.ValidLft = max(1, int(lifetime/time.Second))
	// Deprecated from the start (RFC 4862, 5.5.4): it is no source address, and no program takes it
	// for the host's own. The newest IPv6 address comes first otherwise, and etcd would use it.
	addr.PreferedLft = 0
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
