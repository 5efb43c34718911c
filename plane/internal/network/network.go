package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bridge is the name of the bridge inside the namespace.
const Bridge = "br0"

var (
	// Subnet holds the addresses of the hosts and of their virtual IPs.
	Subnet = netip.MustParsePrefix("10.88.0.0/24")
	// Subnet6 holds those of IPv6: see IPv6.
	Subnet6 = netip.MustParsePrefix("fd00:88::/64")
	// Gateway is the address on the bridge of the plane that has the hosts.
	Gateway = netip.MustParseAddr("10.88.0.1")
)

// ErrForeign means that the pinned namespace exists but was not made by Slipway.
var ErrForeign = errors.New("network namespace belongs to something else")

// IPv6 is the address of IPv6 of what has an address in Subnet: fd00:88::11 beside 10.88.0.11. A kernel
// without IPv6 has none of them.
func IPv6(ip netip.Addr) netip.Addr {
	last := ip.As4()[3]
	b := Subnet6.Addr().As16()
	b[14], b[15] = last/100, last/10%10<<4|last%10 // The digits read alike.
	return netip.AddrFrom16(b)
}

// Contains says whether an address is of the network of a plane.
func Contains(ip netip.Addr) bool { return Subnet.Contains(ip) || Subnet6.Contains(ip) }

var validName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// ValidateName reports whether name can be the name of an instance, which also names a cgroup, a
// file in /run/netns and is part of interface names.
func ValidateName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q: want a lower-case letter, then up to 30 letters, digits or dashes", name)
	}
	return nil
}

// Ensure is Network.Ensure for an instance by itself.
func Ensure(ctx context.Context, name string) error { return Network{Name: name}.Ensure(ctx) }

// Remove unpins the namespace. With the last process in it, the bridge and all
// links vanish. A namespace that does not exist is not an error. The directory of
// the pins stays, as `ip netns` leaves it: another instance may be about to pin its
// own there, and holds the directory as its lock.
func Remove(name string) error {
	if err := ValidateName(name); err != nil {
		return err
	}
	path := Path(name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Exists reports whether the namespace of the instance is pinned.
func Exists(name string) bool { return isNetNS(Path(name)) }

func configure(name string, address netip.Addr) error {
	h, err := handleAt(Path(name))
	if err != nil {
		return err
	}
	defer h.Close()
	br, err := ensureBridge(h, address)
	if err != nil {
		return err
	}
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	for _, l := range []netlink.Link{lo, br} {
		if err := h.LinkSetUp(l); err != nil {
			return fmt.Errorf("set %s up: %w", l.Attrs().Name, err)
		}
	}
	if err := h.AddrReplace(br, addr(address)); err != nil {
		return fmt.Errorf("add address %s to %s: %w", address, Bridge, err)
	}
	if err := addIPv6(h, Path(name), br, address); err != nil {
		return err
	}
	return inNamespace(Path(name), func() error {
		return errors.Join(
			// Bridged frames must not pass the (empty) firewall and conntrack of this namespace.
			setSysctl("bridge/bridge-nf-call-iptables", "0"), setSysctl("bridge/bridge-nf-call-ip6tables", "0"),
			setSysctl("ipv4/ip_forward", "1"), setSysctl("ipv6/conf/all/forwarding", "1"),
		)
	})
}

// setSysctl sets one of the network, unless the kernel does not have it.
func setSysctl(name, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// addIPv6 gives a link in the namespace at path the address of IPv6 that belongs to ip. New namespaces
// inherit disabled IPv6 from the machine with net.core.devconf_inherit_init_net.
func addIPv6(h *netlink.Handle, path string, link netlink.Link, ip netip.Addr) error {
	if _, err := os.Stat("/proc/sys/net/ipv6"); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := inNamespace(path, func() error { return setSysctl("ipv6/conf/all/disable_ipv6", "0") }); err != nil {
		return err
	}
	six := addr(IPv6(ip))
	six.Flags = unix.IFA_F_NODAD // Nobody else has it, and to find that out takes a second.
	if err := h.AddrReplace(link, six); err != nil {
		return fmt.Errorf("add address %s to %s: %w", six.IP, link.Attrs().Name, err)
	}
	return nil
}

// ensureBridge refuses a namespace with foreign interfaces: Slipway never
// reconfigures a network that it did not make.
func ensureBridge(h *netlink.Handle, address netip.Addr) (netlink.Link, error) {
	links, err := listLinks(h)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		if l.Attrs().Name == Bridge && l.Type() == "bridge" {
			return l, nil
		}
	}
	for _, l := range links {
		if t := l.Type(); t == "veth" || t == "bridge" {
			return nil, fmt.Errorf("%w: it holds %s %s but no bridge %s; choose another --name", ErrForeign, t, l.Attrs().Name, Bridge)
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = Bridge
	// Without an address of its own a bridge takes over that of its ports, and changes it as they come and go.
	attrs.HardwareAddr = hardwareAddr(address)
	if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return nil, fmt.Errorf("create bridge %s (is the kernel's bridge module there? `modprobe bridge`): %w", Bridge, err)
	}
	return h.LinkByName(Bridge)
}

// listAttempts bounds listLinks; the links of a whole instance come up in less.
const listAttempts = 50

// listLinks lists the links once none comes or goes meanwhile: the kernel marks
// a list that changed under it, which netlink reports as ErrDumpInterrupted.
func listLinks(h *netlink.Handle) (links []netlink.Link, err error) {
	for range listAttempts {
		if links, err = h.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return links, err
		}
	}
	return nil, err
}

// addr is ip with the prefix length of its subnet.
func addr(ip netip.Addr) *netlink.Addr {
	bits := Subnet.Bits()
	if ip.Is6() {
		bits = Subnet6.Bits()
	}
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, ip.BitLen())}}
}

// hardwareAddr derives a locally administered address from ip, so that a host
// keeps its address when it is powered off and on.
func hardwareAddr(ip netip.Addr) net.HardwareAddr {
	b := ip.As4()
	return net.HardwareAddr{0x02, 0x88, b[0], b[1], b[2], b[3]}
}
