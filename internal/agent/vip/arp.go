package vip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// Probes are sent closer together than RFC 5227 (1.1) says, which would take a
// third of the time a take-over has; a kernel answers within a millisecond.
const (
	probes     = 3
	probePause = 120 * time.Millisecond
)

// etherTypeARP in network byte order, as the kernel wants it in socket addresses.
var etherTypeARP = binary.NativeEndian.Uint16([]byte{0x08, 0x06})

// An ARP packet for IPv4 over Ethernet (RFC 826) is of fixed length.
const (
	arpLength    = 28
	arpRequest   = 1
	senderMAC    = 8
	senderIP     = 14
	targetIP     = 24
	hardwareSize = 6
)

// arp is an open socket for ARP on one interface.
type arp struct {
	fd, index int
	mac       net.HardwareAddr
	// own are the hardware addresses of this machine. Linux answers for an address on
	// whichever of its interfaces hears the question.
	own []net.HardwareAddr
}

// openARP returns nil for an interface without Ethernet addresses.
func openARP(name string) (*arp, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	attrs := link.Attrs()
	if len(attrs.HardwareAddr) != hardwareSize {
		return nil, nil
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket for ARP: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherTypeARP, Ifindex: attrs.Index}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind a socket for ARP to %s: %w", name, err), unix.Close(fd))
	}
	a := &arp{fd: fd, index: attrs.Index, mac: attrs.HardwareAddr}
	links, err := network.ReadAll(netlink.LinkList)
	if err != nil {
		a.close()
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		a.own = append(a.own, l.Attrs().HardwareAddr)
	}
	return a, nil
}

func (a *arp) isOwn(mac net.HardwareAddr) bool {
	return slices.ContainsFunc(a.own, func(own net.HardwareAddr) bool { return bytes.Equal(own, mac) })
}

func (a *arp) close() { _ = unix.Close(a.fd) }

// request broadcasts an ARP request for an address.
func (a *arp) request(sender, target netip.Addr) error {
	to := &unix.SockaddrLinklayer{
		Protocol: etherTypeARP, Ifindex: a.index, Halen: hardwareSize, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	return unix.Sendto(a.fd, arpPacket(a.mac, sender, target), 0, to)
}

// answer waits for a packet of another machine that has the address.
func (a *arp) answer(ip netip.Addr, wait time.Duration) (string, error) {
	packet := make([]byte, 128)
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return "", nil
		}
		timeout := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
		if err := unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return "", err
		}
		n, _, err := unix.Recvfrom(a.fd, packet, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		case err != nil:
			return "", err
		default:
			if mac := owner(packet[:n], ip); mac != nil && !a.isOwn(mac) {
				return mac.String(), nil
			}
		}
	}
}

// owner is the sender of an ARP packet that claims the address, or nil. A probe,
// whose sender address is 0.0.0.0, claims nothing.
func owner(packet []byte, ip netip.Addr) net.HardwareAddr {
	if len(packet) < arpLength || !bytes.Equal(packet[senderIP:senderIP+4], ip.AsSlice()) {
		return nil
	}
	return bytes.Clone(packet[senderMAC : senderMAC+hardwareSize])
}

// Announce implements Network: for IPv4 by RFC 5227 (3), for IPv6 by RFC 4861 (7.2.6).
func (Kernel) Announce(name string, ip netip.Addr) error {
	if !ip.Is4() {
		return advertise(name, ip)
	}
	a, err := openARP(name)
	if err != nil || a == nil {
		return err
	}
	defer a.close()
	// An announcement is a request for the sender's own address.
	if err := a.request(ip, ip); err != nil {
		return fmt.Errorf("announce %s on %s: %w", ip, name, err)
	}
	return nil
}

// Probe implements Network: for IPv4 by RFC 5227 (2.1.1), for IPv6 by the kernel's
// neighbour discovery.
func (Kernel) Probe(name string, ip netip.Addr) (string, error) {
	if !ip.Is4() {
		return solicit(name, ip)
	}
	a, err := openARP(name)
	if err != nil || a == nil {
		return "", err
	}
	defer a.close()
	for range probes {
		if err := a.request(netip.IPv4Unspecified(), ip); err != nil {
			return "", fmt.Errorf("probe for %s on %s: %w", ip, name, err)
		}
		if mac, err := a.answer(ip, probePause); err != nil || mac != "" {
			return mac, err
		}
	}
	return "", nil
}

func arpPacket(mac net.HardwareAddr, sender, target netip.Addr) []byte {
	p := []byte{0, 1, 8, 0, hardwareSize, 4, 0, arpRequest}
	p = append(append(p, mac...), sender.AsSlice()...)
	return append(append(p, make([]byte, targetIP-senderIP-4)...), target.AsSlice()...)
}
