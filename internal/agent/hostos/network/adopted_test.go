package network

import (
	"encoding/json"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"
)

// TestOfCluster: what is on a host that is adopted is the cluster's by its networks, and by what plugins alone use; all else is
// the operator's.
func TestOfCluster(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:244::/56")}
	text := func(of any) string {
		is, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		return string(is)
	}
	network := func(text string) *net.IPNet {
		_, n, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	gw := net.IPv4(10, 0, 0, 6)
	for name, c := range map[string]struct {
		kind     Kind
		is, name string
		want     bool
	}{
		"flannel, host-gw":              {Routes, text(route{Dst: "10.244.1.0/24", Gw: gw, Dev: "eth0", Table: 254, Protocol: unix.RTPROT_BOOT}), "", true},
		"the same of IPv6":              {Routes, text(route{Dst: "fd00:244:0:1::/64", Dev: "eth0", Table: 254, Protocol: unix.RTPROT_BOOT}), "", true},
		"Calico, a block of addresses":  {Routes, text(route{Dst: "10.244.7.64/26", Type: unix.RTN_BLACKHOLE, Table: 254, Protocol: unix.RTPROT_BIRD}), "", true},
		"Calico, of a pool of its own":  {Routes, text(route{Dst: "192.168.7.64/26", Type: unix.RTN_BLACKHOLE, Table: 254, Protocol: 80}), "", true},
		"kube-router":                   {Routes, text(route{Dst: "10.1.2.0/24", Gw: gw, Table: 254, Protocol: 17}), "", true},
		"Cilium, to another node":       {Routes, text(route{Dst: "10.0.9.0/24", Gw: gw, Dev: "eth0", Table: 254, Protocol: unix.RTPROT_KERNEL}), "", true},
		"Cilium, to its proxy":          {Routes, text(route{Dst: "0.0.0.0/0", Dev: "lo", Table: 2004, Type: unix.RTN_LOCAL}), "", true},
		"operator's":                    {Routes, text(route{Dst: "10.9.0.0/16", Gw: gw, Dev: "eth0", Table: 254, Protocol: unix.RTPROT_STATIC}), "", false},
		"operator's BIRD":               {Routes, text(route{Dst: "10.9.0.0/16", Gw: gw, Dev: "eth0", Table: 254, Protocol: unix.RTPROT_BIRD}), "", false},
		"that holds the pods'":          {Routes, text(route{Dst: "10.0.0.0/8", Gw: gw, Dev: "eth0", Table: 254, Protocol: unix.RTPROT_STATIC}), "", false},
		"default":                       {Routes, text(route{Gw: gw, Dev: "eth0", Table: 254, Protocol: unix.RTPROT_BOOT, Own: true}), "", false},
		"kernel's of an address":        {Routes, text(route{Dst: "10.244.3.0/24", Dev: "eth0", Table: 254, Protocol: unix.RTPROT_KERNEL, Own: true}), "", false},
		"of which nothing is known":     {Routes, "route", "", false},
		"rule of pods":                  {Rules, text(netlink.Rule{Src: network("10.244.0.0/16"), Table: 77}), "", true},
		"rule of services":              {Rules, text(netlink.Rule{Dst: network("10.96.0.0/16"), Table: 7}), "", true},
		"rule of Cilium":                {Rules, text(netlink.Rule{Mark: 0xd00, Mask: ptr.To[uint32](0xf00), Table: 200}), "", true},
		"rule of Calico for WireGuard":  {Rules, text(netlink.Rule{Priority: 99, Invert: true, Mark: 0x100000, Mask: ptr.To[uint32](0x100000), Table: 1}), "", true},
		"rule of OVN-Kubernetes":        {Rules, text(netlink.Rule{Mark: 0x1745ec, Table: 7}), "", true},
		"operator's rule":               {Rules, text(netlink.Rule{Priority: 99, Src: network("10.9.0.0/16"), Mark: 0x1, Mask: ptr.To[uint32](0xff), Table: 1}), "", false},
		"Cilium's move of local":        {Rules, text(netlink.Rule{Priority: 100, Table: 255}), "", false},
		"Calico's end of IPIP":          {IPAddresses, "permanent", "10.244.3.0/32 on tunl0", true},
		"service on loopback":           {IPAddresses, "permanent", "10.96.0.10/32 on lo", true},
		"operator's on loopback":        {IPAddresses, "permanent", "192.0.2.1/32 on lo", false},
		"the host's, in the pods' net":  {IPAddresses, "permanent", "10.244.0.5/24 on eth0", false},
		"neighbour that Cilium keeps":   {Neighbours, text(neighbour{Managed: true}), "10.0.0.8 on eth0", true},
		"operator's neighbour":          {Neighbours, text(neighbour{}), "10.0.0.8 on eth0", false},
		"Cilium at an interface":        {Qdiscs, "clsact bpf:cil_from_netdev-eth0,bpf:cil_to_netdev-eth0", "ingress of eth0", true},
		"Cilium and others":             {Qdiscs, "clsact bpf:cil_from_netdev-eth0,bpf:own", "ingress of eth0", false},
		"queue without filters":         {Qdiscs, "clsact ", "ingress of eth0", false},
		"queue of the operator":         {Qdiscs, "htb ", "root of eth0", false},
		"program of Cilium":             {Programs, "tag=1", "cil_sock4_connect at connect4 of all processes", true},
		"program of the operator":       {Programs, "tag=1", "own at connect4 of all processes", false},
		"IPsec of pods":                 {XFRM, "policy", "policy 0.0.0.0/0 to 10.244.1.0/24 dir out priority 0", true},
		"IPsec of the operator":         {XFRM, "policy", "policy 10.0.0.0/24 to 10.9.0.0/16 dir out priority 0", false},
		"IPsec state":                   {XFRM, "state", "state 10.0.0.5 to 10.0.0.9 esp 0x100", false},
		"interfaces are known by names": {Interfaces, "kind=bridge", "br0", false},
	} {
		if got := OfCluster(c.kind, c.name, c.is, networks); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
