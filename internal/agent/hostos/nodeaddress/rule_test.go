package nodeaddress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func ips(all ...string) (parsed []Address) {
	for _, a := range all {
		text, unstable := strings.CutPrefix(a, "unstable ")
		parsed = append(parsed, Address{Addr: netip.MustParseAddr(text), Unstable: unstable})
	}
	return parsed
}

// host has its IPv4 default route on a VLAN of a bond and that of IPv6 on a bridge, as hosts of clouds
// and virtualization have, and a bridge of Docker.
var host = []Interface{
	{Name: "docker0", Kind: "bridge", Addresses: ips("172.17.0.1")},
	{Name: "eno1", Kind: "device", Hardware: true, Addresses: ips("192.168.0.5")},
	{Name: "bond0.100", Kind: "vlan", Hardware: true, Default4: true, Addresses: ips("10.0.0.200", "10.0.0.5", "10.0.0.6")},
	{Name: "br-ex", Kind: "openvswitch", Default6: true, Addresses: ips("fd00::200", "unstable fd00::7", "fd00::5")},
}

func TestChoose(t *testing.T) {
	virtual4, virtual6 := netip.MustParseAddr("10.0.0.200"), netip.MustParseAddr("fd00::200")
	v4, v6 := []bool{false}, []bool{true}
	single := []Interface{{Name: "eth0", Kind: "veth", Addresses: ips("fd00::5")}, {Name: "virbr0", Kind: "bridge", Addresses: ips("fd01::1")}}
	for name, c := range map[string]struct {
		rule     Rule
		host     []Interface
		families []bool
		virtual  netip.Addr
		want     string
	}{
		"default route, IPv4":            {Rule{}, host, v4, virtual4, "DefaultRoute 10.0.0.5"},
		"default route, IPv6":            {Rule{}, host, v6, virtual6, "DefaultRoute fd00::5"},
		"dual stack":                     {Rule{}, host, []bool{true, false}, virtual6, "DefaultRoute fd00::5 10.0.0.200"},
		"no family said":                 {Rule{}, host, nil, virtual4, "DefaultRoute 10.0.0.5"},
		"no family said, IPv6 alone":     {Rule{}, single, nil, netip.Addr{}, "OnlyInterface fd00::5"},
		"nodeIP":                         {Rule{IPs: []netip.Addr{netip.MustParseAddr("192.168.0.5")}, Interface: "br-ex"}, host, v4, virtual4, "NodeIP 192.168.0.5"},
		"nodeIP of both families":        {Rule{IPs: []netip.Addr{netip.MustParseAddr("fd00::5"), netip.MustParseAddr("192.168.0.5")}}, host, nil, virtual4, "NodeIP fd00::5 192.168.0.5"},
		"nodeIP of the other family":     {Rule{IPs: []netip.Addr{netip.MustParseAddr("192.168.0.5")}}, host, v6, virtual6, "DefaultRoute fd00::5"},
		"nodeIP that is not there":       {Rule{IPs: []netip.Addr{netip.MustParseAddr("192.168.0.6")}}, host, v4, virtual4, "no interface that is up has the configured nodeIP 192.168.0.6"},
		"network":                        {Rule{Networks: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}}, host, v4, virtual4, "NodeIPNetworks 192.168.0.5"},
		"network of the other family":    {Rule{Networks: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}}, host, v6, virtual6, "DefaultRoute fd00::5"},
		"network that is not there":      {Rule{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, host, v4, virtual4, "nodeIPNetworks [192.0.2.0/24]"},
		"interface":                      {Rule{Interface: "eno1"}, host, v4, virtual4, "NodeIPInterface 192.168.0.5"},
		"interface without":              {Rule{Interface: "eno1"}, host, v6, virtual6, "nodeIPInterface eno1 is not up, or has no address of IPv6"},
		"the kernel's source":            {Rule{}, sources("10.0.0.6", ""), v4, virtual4, "DefaultRoute 10.0.0.6"},
		"the virtual one as source":      {Rule{}, sources("10.0.0.200", ""), v4, virtual4, "DefaultRoute 10.0.0.5"},
		"a temporary source":             {Rule{}, sources("", "fd00:0:0:1::9"), v6, virtual6, "DefaultRoute fd00:0:0:1::5"},
		"the other network's source":     {Rule{}, sources("", "2001:db8::9"), v6, virtual6, "DefaultRoute fd00::5"},
		"nodeIP of both, cluster of one": {Rule{IPs: []netip.Addr{netip.MustParseAddr("192.168.0.5"), netip.MustParseAddr("fd00::5")}}, host, v4, virtual4, "NodeIP 192.168.0.5"},
		"no route, no choice":            {Rule{}, single, v6, virtual6, "OnlyInterface fd00::5"},
		"nodeIP on lo":                   {Rule{IPs: []netip.Addr{netip.MustParseAddr("10.255.0.5")}}, routed("10.1.0.5"), v4, virtual4, "NodeIP 10.255.0.5"},
		"network on lo":                  {Rule{Networks: []netip.Prefix{netip.MustParsePrefix("10.255.0.0/16")}}, routed("10.1.0.5"), v4, virtual4, "NodeIPNetworks 10.255.0.5"},
		"the kernel's source on lo":      {Rule{}, routed("10.255.0.5"), v4, virtual4, "DefaultRoute 10.255.0.5"},
		"another one on lo":              {Rule{}, routed("10.1.0.5"), v4, virtual4, "DefaultRoute 10.1.0.5"},
		"the virtual one on lo":          {Rule{}, routed("10.0.0.200"), v4, virtual4, "DefaultRoute 10.1.0.5"},
		"no route, lo besides":           {Rule{}, []Interface{routed("")[0], routed("")[1].without()}, v4, virtual4, "OnlyInterface 10.1.0.5"},
		"no route, several":              {Rule{}, append(single[:1:1], host[3].without()), v6, virtual6, "no default route of IPv6, and several interfaces"},
		"no address":                     {Rule{}, single, v4, virtual4, "no address of IPv4"},
	} {
		t.Run(name, func(t *testing.T) {
			choice, err := c.rule.Choose(c.host, c.families, c.virtual)
			got := string(choice.Source)
			for _, ip := range choice.IPs {
				got += " " + ip.String()
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// sources are host with a source address of each family, and one more network of IPv6.
func sources(v4, v6 string) []Interface {
	all := slices.Clone(host)
	if v4 != "" {
		all[2].Source4 = netip.MustParseAddr(v4)
	}
	if v6 != "" {
		all[3].Source6 = netip.MustParseAddr(v6)
		all[3].Addresses = append(slices.Clone(all[3].Addresses), ips("unstable fd00:0:0:1::9", "fd00:0:0:1::5")...)
	}
	return all
}

// routed is a host that announces an address of its own, on lo, by a routing protocol.
func routed(source string) []Interface {
	from, _ := netip.ParseAddr(source)
	return []Interface{
		{Name: "lo", Kind: "device", Loopback: true, Addresses: ips("10.255.0.5", "10.0.0.200")},
		{Name: "swp1", Kind: "device", Hardware: true, Default4: true, Source4: from, Addresses: ips("10.1.0.5")},
	}
}

func (i Interface) without() Interface {
	i.Default4, i.Default6 = false, false
	return i
}

func TestOwnInterfaces(t *testing.T) {
	all := append(slices.Clone(host),
		Interface{Name: "br-mgmt", Kind: "bridge", Hardware: true}, Interface{Name: "flannel.1", Kind: "vxlan"}, Interface{Name: "wg0", Kind: "wireguard"},
		Interface{Name: "br-lab", Kind: "bridge", Addresses: ips("192.0.2.1")}, routed("")[0], Interface{Name: "cali12", Kind: "veth"})
	for name, c := range map[string]struct {
		rule   Rule
		before []string
		want   string
	}{
		"free":                          {Rule{}, nil, "[eno1 bond0.100 br-ex br-mgmt flannel.1 wg0 cali12]"},
		"node":                          {Rule{}, []string{"docker0", "eno1", "bond0.100", "br-ex", "br-mgmt", "wg0"}, "[eno1 bond0.100 br-ex br-mgmt wg0]"},
		"the operator said: interface":  {Rule{Interface: "br-lab"}, []string{}, "[eno1 bond0.100 br-ex br-mgmt br-lab]"},
		"the operator said: address":    {Rule{IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, []string{}, "[eno1 bond0.100 br-ex br-mgmt br-lab]"},
		"the operator said: in network": {Rule{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, []string{}, "[eno1 bond0.100 br-ex br-mgmt br-lab]"},
	} {
		var names []string
		for _, i := range c.rule.Own(all, c.before) {
			names = append(names, i.Name)
		}
		if got := fmt.Sprint(names); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
