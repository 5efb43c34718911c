package vip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A neighbour advertisement (RFC 4861, 4.4).
const (
	typeAdvertisement = 136
	// flagOverride has neighbours replace the hardware address that they know.
	flagOverride = 0x20
	// optionMAC is a hardware address; its length counts in units of eight bytes.
	optionMAC, unitsOfMAC = 2, 1
	// hops is what neighbours require: no router has passed the packet on.
	hops = 255
)

// allNodes is the group of all machines on a link.
var allNodes = netip.MustParseAddr("ff02::1").As16()

// advertise tells all neighbours that the address is here. Otherwise they send to the previous host for
// half a minute, until their entries expire: the kernel announces no address that is added.
func advertise(name string, ip netip.Addr) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	mac, index := link.Attrs().HardwareAddr, link.Attrs().Index
	if len(mac) != hardwareSize {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return fmt.Errorf("open a socket for ICMPv6: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	// The kernel fills in the checksum.
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrInet6{Addr: ip.As16()}),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, hops),
	)
	if err == nil {
		err = unix.Sendto(fd, advertisement(mac, ip), 0, &unix.SockaddrInet6{Addr: allNodes, ZoneId: uint32(index)})
	}
	if err != nil {
		return fmt.Errorf("announce %s on %s: %w", ip, name, err)
	}
	return nil
}

func advertisement(mac net.HardwareAddr, ip netip.Addr) []byte {
	p := append([]byte{typeAdvertisement, 0, 0, 0, flagOverride, 0, 0, 0}, ip.AsSlice()...)
	return append(append(p, optionMAC, unitsOfMAC), mac...)
}

// solicitPause is the time between two looks at the neighbour table.
const solicitPause = 10 * time.Millisecond

// found are the states of a neighbour that has answered.
const found = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE

// solicit lets the kernel ask for the neighbour with an IPv6 address (RFC 4861, 7.2.2), and
// returns its hardware address; empty when none answers. The kernel asks from its link-local
// address: on an interface without one it asks nobody.
func solicit(name string, ip netip.Addr) (string, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return "", err
	}
	index := link.Attrs().Index
	if len(link.Attrs().HardwareAddr) != hardwareSize {
		return "", nil
	}
	// What the table has may be of a holder that is gone.
	entry := &netlink.Neigh{LinkIndex: index, Family: netlink.FAMILY_V6, IP: ip.AsSlice()}
	if err := netlink.NeighDel(entry); err != nil && !errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("forget the neighbour %s on %s: %w", ip, name, err)
	}
	entry.Flags = netlink.NTF_USE
	if err := netlink.NeighSet(entry); err != nil {
		return "", fmt.Errorf("solicit %s on %s: %w", ip, name, err)
	}
	for deadline := time.Now().Add(probes * probePause); time.Now().Before(deadline); time.Sleep(solicitPause) {
		neighbours, err := netlink.NeighList(index, netlink.FAMILY_V6)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return "", fmt.Errorf("read the neighbours on %s: %w", name, err)
		}
		for _, n := range neighbours {
			if a, _ := netip.AddrFromSlice(n.IP); a == ip && n.State&found != 0 {
				return n.HardwareAddr.String(), nil
			}
		}
	}
	return "", nil
}
