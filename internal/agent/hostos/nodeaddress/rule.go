package nodeaddress

import (
	"fmt"
	"net/netip"
	"slices"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Interface is a network interface that is up. The loopback one is among them when it has an address by which
// others reach the host, as one that is announced by a routing protocol.
type Interface struct {
	Name string
	// Loopback is true for lo.
	Loopback bool
	// Kind as the kernel names it: bond, bridge, veth; "device" for hardware.
	Kind string
	// Hardware is true for hardware, and for what is built on it: bonds, VLANs, bridges with such ports.
	Hardware bool
	// Default4 and Default6 are true when the default route of the family goes out here.
	Default4, Default6 bool
	// Source4 and Source6 are the addresses that the kernel sends from by that route. Source6 may be a
	// temporary one.
	Source4, Source6 netip.Addr
	// Addresses in the kernel's order, without link-local ones.
	Addresses []Address
}

// Address is an address of an interface.
type Address struct {
	netip.Addr
	// Unstable is true for one that programs should not use as the host's: deprecated, temporary
	// (RFC 8981) or still looked for on other machines.
	Unstable bool
}

func (i Interface) isDefault(v6 bool) bool {
	if v6 {
		return i.Default6
	}
	return i.Default4
}

// address returns the stable address of a family that fits and that others know the host by: the one that
// the kernel sends from by the default route, or one of the same network where that is a temporary one, or
// else the first. The kernel lists IPv4 addresses as they were added, and the newest IPv6 address first.
func (i Interface) address(v6 bool, fits func(netip.Addr) bool) (found netip.Addr) {
	source := i.Source4
	if v6 {
		source = i.Source6
	}
	best := 3
	for _, a := range i.Addresses {
		if a.Unstable || a.Is6() != v6 || !fits(a.Addr) {
			continue
		}
		rank := 2
		switch network, err := a.Prefix(networkBits); {
		case a.Addr == source:
			rank = 0
		case v6 && err == nil && network.Contains(source):
			rank = 1
		}
		if rank < best {
			found, best = a.Addr, rank
		}
	}
	return found
}

// networkBits is the length of the prefix of a network of IPv6.
const networkBits = 64

// Rule is what the operator says of the addresses of the node. The zero value takes those of the
// interface of the default route, for each family.
type Rule struct {
	// IPs are the addresses, at most one of each family.
	IPs []netip.Addr
	// Networks hold the addresses.
	Networks []netip.Prefix
	// Interface has the addresses.
	Interface string
}

// Choice is a decision.
type Choice struct {
	// IPs have one address for each family, the node's primary one first.
	IPs []netip.Addr
	// Source of the first.
	Source infrav1.HostNodeAddressSource
}

// Choose returns one address of each family, the first family first; v6 names the families. Without
// families it takes those of Rule.IPs, or else one: IPv4 where it finds one.
//
// An address never is the virtual one, which moves between hosts.
func (r Rule) Choose(interfaces []Interface, v6 []bool, virtual netip.Addr) (Choice, error) {
	if len(v6) == 0 {
		for _, ip := range r.IPs {
			v6 = append(v6, ip.Is6())
		}
	}
	if len(v6) == 0 {
		choice, err := r.Choose(interfaces, []bool{false}, virtual)
		if other, err6 := r.Choose(interfaces, []bool{true}, virtual); err != nil && err6 == nil {
			return other, nil
		}
		return choice, err
	}
	choice := Choice{}
	for _, v6 := range v6 {
		ip, source, err := r.one(interfaces, v6, virtual)
		if err != nil {
			return Choice{}, err
		}
		if len(choice.IPs) == 0 {
			choice.Source = source
		}
		choice.IPs = append(choice.IPs, ip)
	}
	return choice, nil
}

// one chooses the address of a family.
func (r Rule) one(interfaces []Interface, v6 bool, virtual netip.Addr) (netip.Addr, infrav1.HostNodeAddressSource, error) {
	for _, ip := range r.IPs {
		if ip.Is6() != v6 {
			continue
		}
		if On(interfaces, ip) == "" {
			return netip.Addr{}, "", fmt.Errorf("no interface that is up has the configured nodeIP %s", ip)
		}
		return ip, infrav1.HostNodeAddressConfigured, nil
	}
	own := func(a netip.Addr) bool { return a != virtual }
	networks := slices.DeleteFunc(slices.Clone(r.Networks), func(n netip.Prefix) bool { return n.Addr().Is6() != v6 })
	switch {
	case len(networks) > 0:
		for _, n := range networks {
			for _, i := range interfaces {
				if ip := i.address(v6, func(a netip.Addr) bool { return own(a) && n.Contains(a) }); ip.IsValid() {
					return ip, infrav1.HostNodeAddressNetwork, nil
				}
			}
		}
		return netip.Addr{}, "", fmt.Errorf("no interface that is up has an address in the configured nodeIPNetworks %v", networks)
	case r.Interface != "":
		for _, i := range interfaces {
			if ip := i.address(v6, own); i.Name == r.Interface && ip.IsValid() {
				return ip, infrav1.HostNodeAddressInterface, nil
			}
		}
		return netip.Addr{}, "", fmt.Errorf("the configured nodeIPInterface %s is not up, or has no address of %s", r.Interface, family(v6))
	}
	return byRoute(interfaces, v6, own)
}

// byRoute takes the interface of the default route. Without one, as on a network without a router,
// there must be no choice.
func byRoute(interfaces []Interface, v6 bool, own func(netip.Addr) bool) (netip.Addr, infrav1.HostNodeAddressSource, error) {
	for _, i := range interfaces {
		if !i.isDefault(v6) {
			continue
		}
		ip := i.address(v6, own)
		if other := sourceElsewhere(interfaces, i, v6); other.IsValid() && own(other) {
			ip = other
		}
		if ip.IsValid() {
			return ip, infrav1.HostNodeAddressDefaultRoute, nil
		}
	}
	var only netip.Addr
	for _, i := range interfaces {
		ip := i.address(v6, own)
		if !ip.IsValid() || i.Loopback || i.Kind == "bridge" && !i.Hardware {
			continue
		}
		if only.IsValid() {
			return netip.Addr{}, "", fmt.Errorf("the host has no default route of %s, and several interfaces with such addresses (%s, %s); "+
				"add the route, or set nodeIP, nodeIPNetworks or nodeIPInterface in the agent's configuration", family(v6), only, ip)
		}
		only = ip
	}
	if !only.IsValid() {
		return netip.Addr{}, "", fmt.Errorf("the host has no address of %s for the node; give it one, or set nodeIP in the agent's configuration", family(v6))
	}
	return only, infrav1.HostNodeAddressOnlyInterface, nil
}

// sourceElsewhere is the address that the kernel sends from by the default route, where that is of the loopback
// interface: the route says so. It is not valid otherwise.
func sourceElsewhere(interfaces []Interface, by Interface, v6 bool) netip.Addr {
	source := by.Source4
	if v6 {
		source = by.Source6
	}
	for _, i := range interfaces {
		if i.Loopback && slices.ContainsFunc(i.Addresses, func(a Address) bool { return a.Addr == source && !a.Unstable }) {
			return source
		}
	}
	return netip.Addr{}
}

func family(v6 bool) infrav1.HostIPFamily {
	if v6 {
		return infrav1.HostIPv6
	}
	return infrav1.HostIPv4
}

// On is the interface that has an address; empty when none has.
func On(interfaces []Interface, ip netip.Addr) string {
	for _, i := range interfaces {
		if slices.ContainsFunc(i.Addresses, func(a Address) bool { return a.Addr == ip }) {
			return i.Name
		}
	}
	return ""
}

// Own returns the interfaces of the host itself: those that the operator named, that have a default
// route or are built on hardware, and those that the host had before it became a node. Bridges that
// containers or virtual machines alone are on, and what a network plugin made, are not among them.
// before are the names of the interfaces before the bootstrap; nil when they are not known.
func (r Rule) Own(interfaces []Interface, before []string) []Interface {
	return slices.DeleteFunc(slices.Clone(interfaces), func(i Interface) bool {
		said := i.Name == r.Interface || slices.ContainsFunc(i.Addresses, func(a Address) bool {
			return slices.Contains(r.IPs, a.Addr) || slices.ContainsFunc(r.Networks, func(n netip.Prefix) bool { return n.Contains(a.Addr) })
		})
		if said || i.Default4 || i.Default6 || i.Hardware {
			return false
		}
		return i.Loopback || i.Kind == "bridge" || before != nil && !slices.Contains(before, i.Name)
	})
}
