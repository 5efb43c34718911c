package network

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"
)

// pluginProtocols are those of routes of Calico and kube-router alone. BIRD is not among them: hosts run it for
// networks of their own, too.
var pluginProtocols = []int{80, 17}

// pluginTables are the tables of routes of Cilium's proxy.
var pluginTables = []int{2004, 2005}

const (
	// ciliumMask is that of the marks by which Cilium's rules choose a table.
	ciliumMask = 0xf00
	// ovnMark is that of packets to services in OVN-Kubernetes.
	ovnMark = 0x1745ec
	// Calico's rule for WireGuard.
	calicoPriority, calicoTable = 99, 1
)

// programPrefixes are the names of eBPF programs of Cilium and Calico.
var programPrefixes = []string{"cil_", "cali", "sock4_", "sock6_", "bpf_netdev"}

// OfCluster says whether an entry of a host that is the node of a cluster was made for that cluster. networks are those of the
// cluster's pods and services. What is not known for certain is the operator's.
func OfCluster(kind Kind, name, fingerprint string, networks []netip.Prefix) bool {
	of := clusterRules[kind]
	return of != nil && of(name, fingerprint, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
	})
}

// clusterRules say of the name and the fingerprint of an entry whether it is a cluster's; within is true for a network within
// those of its pods and services. Kinds that are missing are never known to be.
var clusterRules = map[Kind]func(name, fingerprint string, within func(string) bool) bool{
	Routes: func(_, fingerprint string, within func(string) bool) bool {
		r := route{}
		if json.Unmarshal([]byte(fingerprint), &r) != nil || r.Own {
			return false
		}
		// The kernel's own routes have no gateway: those of Cilium to other nodes do.
		return within(r.Dst) || slices.Contains(pluginProtocols, r.Protocol) || r.Protocol == unix.RTPROT_KERNEL && r.Gw != nil || slices.Contains(pluginTables, r.Table)
	},
	Rules: func(_, fingerprint string, within func(string) bool) bool {
		r := netlink.Rule{}
		if json.Unmarshal([]byte(fingerprint), &r) != nil {
			return false
		}
		networkOf := func(n *net.IPNet) bool { return n != nil && within(n.String()) }
		mask := ptr.Deref(r.Mask, 0)
		return networkOf(r.Src) || networkOf(r.Dst) || slices.Contains(pluginTables, r.Table) || mask == ciliumMask || r.Mark == ovnMark ||
			r.Invert && mask != 0 && mask == r.Mark && r.Priority == calicoPriority && r.Table == calicoTable
	},
	IPAddresses: func(name, _ string, within func(string) bool) bool {
		// On an interface that the kernel makes itself, such as tunl0: others of the node go with theirs.
		address, link, _ := strings.Cut(name, " on ")
		return (link == "lo" || slices.Contains(fallbackLinks, link)) && within(address)
	},
	IPVS: func(name, _ string, within func(string) bool) bool {
		_, at, _ := strings.Cut(name, " ")
		address, err := netip.ParseAddrPort(at)
		return err == nil && within(netip.PrefixFrom(address.Addr(), address.Addr().BitLen()).String())
	},
	Neighbours: func(_, fingerprint string, _ func(string) bool) bool {
		return strings.Contains(fingerprint, `"managed":true`)
	},
	Qdiscs: func(_, fingerprint string, _ func(string) bool) bool {
		_, filters, _ := strings.Cut(fingerprint, " ")
		return filters != "" && !slices.ContainsFunc(strings.Split(filters, ","), func(f string) bool { return !hasPrefix(programPrefixes, strings.TrimPrefix(f, "bpf:")) })
	},
	Programs: func(name, _ string, _ func(string) bool) bool { return hasPrefix(programPrefixes, name) },
	XFRM: func(name, _ string, within func(string) bool) bool {
		src, rest, _ := strings.Cut(strings.TrimPrefix(name, "policy "), " to ")
		dst, _, _ := strings.Cut(rest, " ")
		return strings.HasPrefix(name, "policy ") && (within(src) || within(dst))
	},
}
