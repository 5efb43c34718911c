package preflight

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// smallestMTU is what IPv6 needs of a link; below it the kernel has no IPv6 there.
	smallestMTU = 1280
	// usualMTU is that of Ethernet, which network plugins take for granted.
	usualMTU = 1500
)

// defaultLinks4 are the interfaces of the default routes in the format of /proc/net/route.
func defaultLinks4(table string) (links []string) {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" && f[0] != noLink {
			links = append(links, f[0])
		}
	}
	return links
}

// noLink stands for the interface of a route that drops or refuses packets.
const noLink = "*"

// hasIPv4 says whether an interface has an address of IPv4, by the route to its network.
func hasIPv4(table string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 7 && f[0] != noLink && f[1] != "Destination" {
			return true
		}
	}
	return false
}

// defaultLinks6 are those in the format of /proc/net/ipv6_route. The kernel's own unreachable one is
// on lo.
func defaultLinks6(table string) (links []string) {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 9 && strings.Trim(f[0], "0") == "" && f[1] == "00" && f[9] != "lo" {
			links = append(links, f[9])
		}
	}
	return links
}

// hasIPv6 says whether an interface has an address of IPv6 that others reach.
func hasIPv6(table string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 5 && f[3] == "00" && f[5] != "lo" {
			return true
		}
	}
	return false
}

// defaultLinks are the interfaces of the default routes of each family. Without one in the main table it is the one by which the kernel
// sends to an address far away, as the agent finds the node's: by a rule that leads to another table, or by two halves.
func (s *scope) defaultLinks(ctx context.Context) (v4, v6 []string) {
	v4, v6 = defaultLinks4(s.text("/proc/net/route")), defaultLinks6(s.text("/proc/net/ipv6_route"))
	if len(v4) == 0 {
		v4 = s.sentBy(ctx, "-4", "192.0.0.8")
	}
	if len(v6) == 0 {
		v6 = s.sentBy(ctx, "-6", "2000::1")
	}
	return v4, v6
}

// sentBy is the interface by which the kernel sends to an address; nil for none, or lo.
func (s *scope) sentBy(ctx context.Context, family, to string) []string {
	out, err := s.Run(ctx, "ip", family, "route", "get", to)
	if err != nil {
		return nil
	}
	f := strings.Fields(out)
	if at := slices.Index(f, "dev"); at >= 0 && at+1 < len(f) && f[at+1] != "lo" {
		return f[at+1 : at+2]
	}
	return nil
}

// checkDefaultRoute wants one of either family: without it the host does not reach the addresses of
// services, and the address of the node may be ambiguous.
func checkDefaultRoute(ctx context.Context, s *scope) []Finding {
	v4, v6 := s.defaultLinks(ctx)
	switch {
	case len(v4) == 0 && len(v6) == 0:
		return bad(Error, "sudo ip route add default via ADDRESS, and keep it in the network's configuration; on a network without a router any address of it will do",
			"there is no default route, neither of IPv4 nor of IPv6: programs of the host do not reach the addresses of services")
	case len(v4) == 0 && hasIPv4(s.text("/proc/net/route")):
		return bad(Warning, "sudo ip route add default via ADDRESS, and keep it in the network's configuration",
			"the host has addresses of IPv4 and no default route of IPv4: in a cluster with IPv4 its programs do not reach the addresses of services, and the address of its node may be ambiguous")
	case len(v4) == 0:
		return good("IPv6 alone, by %s", v6[0])
	case len(v6) == 0 && hasIPv6(s.text("/proc/net/if_inet6")):
		return bad(Warning, "sudo ip -6 route add default via ADDRESS, and keep it in the network's configuration; or set nodeIP in the agent's configuration",
			"the host has addresses of IPv6 and no default route of IPv6: in a cluster with IPv6 the address of its node may be ambiguous")
	}
	return good("by %s", strings.Join(slices.Compact(slices.Concat(v4[:1], v6[:min(1, len(v6))])), ", "))
}

// checkMTU looks at the interfaces that packets of pods leave by.
func checkMTU(ctx context.Context, s *scope) []Finding {
	v4, v6 := s.defaultLinks(ctx)
	var seen []string
	for _, link := range slices.Concat(v4, v6) {
		text := s.text(path.Join("/sys/class/net", link, "mtu"))
		mtu, err := strconv.Atoi(text)
		if err != nil || slices.Contains(seen, link) {
			continue
		}
		seen = append(seen, link)
		remedy := fmt.Sprintf("sudo ip link set %s mtu %d, and keep it in the network's configuration, if the network carries that", link, usualMTU)
		switch {
		case mtu < smallestMTU:
			return bad(Error, remedy, "%s has an MTU of %d: less than %d leaves no room for a pod network", link, mtu, smallestMTU)
		case mtu < usualMTU:
			return bad(Warning, remedy+"; or set the MTU of the network plugin to at most "+strconv.Itoa(mtu-usualOverhead),
				"%s has an MTU of %d: a network plugin that takes %d for granted loses large packets", link, mtu, usualMTU)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return good("of %s", strings.Join(seen, ", "))
}

// usualOverhead is what VXLAN over IPv4 adds to a packet.
const usualOverhead = 50
