package network_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func sh(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

func state(t *testing.T) map[network.Kind]map[string]string {
	t.Helper()
	all := map[network.Kind]map[string]string{}
	for _, kind := range network.Kinds {
		found, err := network.Kernel{}.Entries(kind)
		must(t, err)
		all[kind] = found
	}
	return all
}

// drift is what differs and is not the machine's own.
func drift(kind network.Kind, before, now map[string]string) (came []string, changed map[string]string) {
	changed = map[string]string{}
	for name := range now {
		was, known := before[name]
		if known && was == now[name] || network.Own(kind, name, was, now[name], before, now) {
			continue
		}
		if known {
			changed[name] = was
		} else {
			came = append(came, name)
		}
	}
	for name, was := range before {
		if _, there := now[name]; !there && !network.Own(kind, name, was, "", before, now) {
			changed[name] = was
		}
	}
	slices.Sort(came)
	return came, changed
}

// TestNetworkOfPlugins: the kernel's network returns to what it was after each plugin, as its documentation
// says that it configures a host. want is named meanwhile, by kind.
func TestNetworkOfPlugins(t *testing.T) {
	for _, program := range []string{"ip", "nft", "tc"} {
		if _, err := exec.LookPath(program); err != nil {
			rights.Skip(t, "the test needs", program)
		}
	}
	for name, tc := range map[string]struct {
		script string
		want   map[network.Kind]string
	}{
		"Calico, BIRD": {"ip route add blackhole 10.244.200.0/26 proto bird; ip route add 10.244.201.0/26 via 10.0.0.7 proto bird; ip -6 route add unreachable fd00:244::/122 proto bird",
			map[network.Kind]string{network.Routes: "blackhole 10.244.200.0/26"}},
		"Calico, VXLAN": {"ip link add vxlan.calico type vxlan id 4096 dstport 4789; ip addr add 10.244.3.0/32 dev vxlan.calico; ip link set vxlan.calico up; ip route add 10.244.5.0/26 via 10.244.5.0 dev vxlan.calico onlink proto 80",
			map[network.Kind]string{network.Interfaces: "vxlan.calico"}},
		"Calico, a rule in a chain of the operator": {"nft add chain ip operator cali-INPUT; nft insert rule ip operator input counter jump cali-INPUT; nft add rule ip operator cali-INPUT accept",
			map[network.Kind]string{network.NFTables: "chain ip operator cali-INPUT"}},
		"Cilium": {"ip rule add pref 9 fwmark 0x200/0xf00 lookup 2004; ip -6 rule add pref 9 fwmark 0x200/0xf00 lookup 2004; ip route add local 0.0.0.0/0 dev lo table 2004 proto kernel; tc qdisc replace dev eth0 clsact; ip route add 10.0.9.0/24 via 10.0.0.9 dev eth0 proto kernel",
			map[network.Kind]string{network.Rules: "9: fwmark 0x200/0xf00 lookup 2004", network.Qdiscs: "ingress of eth0", network.Routes: "10.0.9.0/24 via 10.0.0.9 dev eth0"}},
		"a table of Cilium": {"ip route add local 0.0.0.0/0 dev lo table 2004 proto kernel",
			map[network.Kind]string{network.Routes: "local default dev lo table 2004"}},
		"Cilium moves the rule of the table local": {"ip rule add pref 100 lookup local; ip rule del pref 0",
			map[network.Kind]string{network.Rules: "100: lookup 255"}},
		"kube-router": {"ip link add kube-bridge type bridge; ip route add 10.244.8.0/24 via 10.0.0.8 proto 17; ip rule add pref 32765 from 10.244.0.0/16 lookup 77; ip route add default via 10.0.0.8 table 77",
			map[network.Kind]string{network.Interfaces: "kube-bridge", network.Rules: "32765: from 10.244.0.0/16 lookup 77"}},
		"kube-proxy, nftables": {"nft add table ip kube-proxy; nft add chain ip kube-proxy services; nft add table ip6 kube-proxy",
			map[network.Kind]string{network.NFTables: "table ip kube-proxy"}},
		"Weave opens a policy": {"nft 'add chain ip operator forward { policy accept; }'; ip link add weave type bridge",
			map[network.Kind]string{network.Interfaces: "weave"}},
		"Antrea, OVN: the host's interface on a bridge": {"ip link add br-ex type bridge; ip link set eth0 master br-ex",
			map[network.Kind]string{network.Interfaces: "br-ex"}},
		"OVN-Kubernetes: the host's address on a bridge": {"ip link add br-ex type bridge; ip link set br-ex up; ip link set eth0 master br-ex; ip addr del 10.0.0.5/24 dev eth0; ip addr add 10.0.0.5/24 dev br-ex; ip route add default via 10.0.0.1 dev br-ex",
			map[network.Kind]string{network.Interfaces: "br-ex"}},
		"Multus: an interface of a pod": {"ip link add link eth0 name net1 type macvlan 2>/dev/null || ip link add net1 type bridge; ip link set eth0 mtu 1400",
			map[network.Kind]string{network.Interfaces: "net1"}},
		"Cilium: neighbours": {"ip neigh replace 10.0.0.7 lladdr 02:00:00:00:00:07 dev eth0 nud permanent; ip neigh replace 10.0.0.8 dev eth0 managed extern_learn; ip neigh add proxy 10.0.0.99 dev eth0; ip -6 neigh replace fd00::7 lladdr 02:00:00:00:00:07 dev eth0 nud permanent; ip neigh replace 10.0.0.6 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
			map[network.Kind]string{network.Neighbours: "10.0.0.7 on eth0"}},
		"a neighbour of the operator goes": {"ip neigh del 10.0.0.6 dev eth0; ip neigh del proxy 10.0.0.66 dev eth0", nil},
		"FRR: nexthops": {"ip nexthop add id 10 via 10.0.0.9 dev eth0; ip nexthop add id 11 via 10.0.0.8 dev eth0; ip nexthop add id 20 group 10/11; ip nexthop add id 12 blackhole; ip route add 10.77.0.0/16 nhid 20",
			map[network.Kind]string{network.Nexthops: "id 20"}},
		"an interface is switched off, and takes all packets": {"ip link set eth0 promisc on; ip link set peer0 down; ip link set eth0 down", nil},
		"Cilium's bandwidth manager":                          {"tc qdisc replace dev eth0 root htb; tc qdisc replace dev mq0 root handle 10: mq; for n in 1 2; do tc qdisc replace dev mq0 parent 10:$n tbf rate 1gbit burst 1mb latency 1ms; done", nil},
		"Cilium's filters beside those of the operator":       {"tc filter add dev own0 ingress pref 1 protocol all u32 match u32 0 0; tc filter add dev own0 ingress pref 5 protocol all u32 match u32 1 1; tc filter add dev own0 egress protocol all u32 match u32 0 0", nil},
		"large packets of Cilium":                             {"ip link set eth0 gso_max_size 100000 gro_max_size 100000 allmulticast on", nil},
		"the bridge plugin with VLANs":                        {"ip link set own-br type bridge vlan_filtering 1; bridge vlan add dev own0 vid 100-104; bridge vlan add dev own0 vid 200 pvid untagged; bridge vlan del dev own0 vid 1; bridge vlan add dev own-br vid 100 self", nil},
		"a port of the operator's bridge on another one, and back with other VLANs": {"ip link add br-ex type bridge; ip link set own0 master br-ex; ip link set own0 master own-br; bridge vlan del dev own0 vid 7",
			map[network.Kind]string{network.Interfaces: "br-ex"}},
		"a firewall that is put to sleep": {"nft 'add table ip operator { flags dormant; }'", nil},
		"addresses of a cache of names and a metadata service": {"ip addr add 169.254.20.10/32 dev lo; ip addr add 169.254.169.254/32 dev eth0; ip -6 addr add fe80::a9fe:a9fe/128 dev eth0 nodad",
			map[network.Kind]string{network.IPAddresses: "169.254.20.10/32 on lo"}},
		"an interface that is tuned":         {"ip link set eth0 arp off; ip link set eth0 multicast off; ip link set eth0 txqueuelen 5; ip link set eth0 group 7", nil},
		"a route that is tuned":              {"ip route change 10.9.0.0/16 via 10.0.0.9 initcwnd 20 advmss 900", nil},
		"an address that somebody took away": {"ip addr del 10.8.0.5/24 dev peer0", nil},
		"a second default route":             {"ip route add default via 10.0.0.9 metric 50", map[network.Kind]string{network.Routes: "default via 10.0.0.9 dev eth0 metric 50"}},
		"an address of a load balancer": {"ip addr add 192.0.2.7/32 dev lo; ip addr add 10.99.1.5/24 dev eth0",
			map[network.Kind]string{network.IPAddresses: "192.0.2.7/32 on lo"}},
	} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t)
			if strings.Contains(tc.script, "bridge vlan") && exec.Command("sh", "-ec", "ip link add v type bridge vlan_filtering 1; ip link del v").Run() != nil {
				t.Skip("bridges of this kernel know no VLANs")
			}
			sh(t, `nft 'add table ip operator; add chain ip operator input { type filter hook input priority 0; policy accept; }; add rule ip operator input tcp dport 22 counter accept'
nft 'add chain ip operator forward { type filter hook forward priority 0; policy drop; }'
ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:06 dev eth0 nud permanent; ip neigh add proxy 10.0.0.66 dev eth0; ip nexthop add id 9 via 10.0.0.9 dev eth0
ip route add 10.9.0.0/16 via 10.0.0.9; ip rule add pref 500 from 10.9.0.0/16 lookup 500; ip addr add 10.8.0.5/24 dev peer0 label peer0:8 scope link noprefixroute
ip link add own-br type bridge; ip link add own0 type veth peer name own1; ip link set own0 master own-br; bridge vlan add dev own0 vid 7-9 2>/dev/null || true; tc qdisc add dev own0 clsact; tc filter add dev own0 ingress pref 5 protocol all u32 match u32 0 0
ip link add mq0 numtxqueues 2 numrxqueues 2 type veth peer name mq1; tc qdisc replace dev mq0 root mq; tc qdisc replace dev eth0 root pfifo`)
			before, seen := state(t), independent(t)
			sh(t, tc.script)
			now := state(t)
			differs := 0
			for _, kind := range network.Kinds {
				came, changed := drift(kind, before[kind], now[kind])
				differs += len(came) + len(changed)
			}
			if differs == 0 {
				t.Error("nothing is known to have changed")
			}
			for kind, want := range tc.want {
				if came, _ := drift(kind, before[kind], now[kind]); !slices.Contains(came, want) {
					t.Errorf("what came of the kind %s is %q, without %q", kind, came, want)
				}
			}
			for range 2 { // the second is that of an agent which was interrupted at the end of the first
				for _, kind := range network.Kinds {
					found, err := network.Kernel{}.Entries(kind)
					must(t, err)
					came, changed := drift(kind, before[kind], found)
					if len(changed) > 0 {
						must(t, network.Kernel{}.RestoreEntries(kind, changed))
					}
					must(t, network.Kernel{}.RemoveEntries(kind, came))
				}
			}
			if is := independent(t); is != seen {
				t.Errorf("the programs of the system say\n%s\nand said\n%s", is, seen)
			}
			after := state(t)
			for _, kind := range network.Kinds {
				if came, changed := drift(kind, before[kind], after[kind]); len(came)+len(changed) > 0 {
					t.Errorf("of the kind %s are left %q, and changed %q", kind, came, slices.Sorted(maps.Keys(changed)))
				}
			}
		})
	}
}

// independent is what the programs of the system say of the interfaces, addresses and routes of a host, but for what follows
// later from whether the other end of a link is up.
func independent(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", `ip -o link | sed 's/^[0-9]*: //; s/@.*: </: </; s/link.ether.*//; s/,LOWER_UP//; s/NO-CARRIER,//; s/state [A-Z]*//' | sort
ip -o addr | sed 's/^[0-9]*: //; s/valid_lft.*//' | grep -v 'inet6 fe80.*/64' | sort; ip route show table all | grep -v -e fe80 -e ff00: | sed 's/ linkdown//; s/ dead//' | sort; ip rule`).Output()
	must(t, err)
	return string(out)
}

// TestFirewallThatIsNamed: what somebody changed in the operator's own firewall is named where it cannot be restored: the
// order of rules, what kind of chain or set it is, and limits.
func TestFirewallThatIsNamed(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		rights.Skip(t, "the test needs nft")
	}
	for name, tc := range map[string]struct {
		script string
		named  []string
	}{
		"the order of rules":  {`H=$(nft -a list chain ip own in | sed -n 's/.*dport 22 .*handle //p'); nft delete rule ip own in handle $H; nft add rule ip own in tcp dport 22 counter drop`, []string{"chain ip own in"}},
		"the kind of a chain": {"nft 'delete chain ip own pre; add chain ip own pre { type nat hook prerouting priority 0; }'", []string{"chain ip own pre"}},
		"a set with timeouts": {"nft 'delete set ip own admins; add set ip own admins { type ipv4_addr; flags timeout; }'", []string{"set ip own admins"}},
		"a limit":             {"nft 'delete limit ip own l; add limit ip own l { rate 999/second; }'", []string{"object ip own l"}},
		"nothing":             {"nft 'add element ip own admins { 10.6.6.6 }; reset counter ip own c; add rule ip own in tcp dport 25 accept; add rule ip own other accept'; H=$(nft -a list chain ip own in | sed -n 's/.*dport 25 .*handle //p'); nft delete rule ip own in handle $H; nft flush chain ip own other; H=$(nft -a list chain ip own in | sed -n 's/.*jump KUBE-X.*handle //p'); nft delete rule ip own in handle $H; nft insert rule ip own in jump KUBE-X", nil},
	} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t)
			sh(t, `nft 'add table ip own; add chain ip own in { type filter hook input priority 0; policy accept; }; add chain ip own other; add rule ip own in tcp dport 22 counter drop; add rule ip own in tcp dport 22-23 accept; add chain ip own KUBE-X; add rule ip own in jump KUBE-X'
nft 'add set ip own admins { type ipv4_addr; }; add counter ip own c; add limit ip own l { rate 10/second; }; add chain ip own pre { type filter hook prerouting priority 0; }'`)
			before := state(t)[network.NFTables]
			sh(t, tc.script)
			came, changed := drift(network.NFTables, before, state(t)[network.NFTables])
			if is := slices.Sorted(maps.Keys(changed)); !slices.Equal(is, tc.named) || len(came) > 0 {
				t.Errorf("came %q, changed %q, want %q", came, is, tc.named)
			}
		})
	}
}

// TestRecordsOfOlderAgents: what an older agent did not record is no change.
func TestRecordsOfOlderAgents(t *testing.T) {
	const key = "state 10.0.0.5 to 10.0.0.9 esp "
	older := map[string]string{key + "0x1": "state"}
	for _, c := range []struct {
		kind              network.Kind
		name, before, now string
		own               bool
	}{
		{network.NFTables, "table ip own", "table", "table flags=0", true},
		{network.NFTables, "chain ip own in", "hook=01 policy=00", "hook=01 policy=00 type=filter order=12", true},
		{network.NFTables, "chain ip own in", "hook=01 policy=00", "hook=01 policy=01 type=filter order=12", false},
		{network.NFTables, "chain ip own in", "hook=01 policy=00 type=filter order=12", "hook=01 policy=00 type=filter order=13", false},
		{network.NFTables, "set ip own a", "set", "set settings=12", true},
		{network.NFTables, "set ip own a", "set settings=12", "set settings=13", false},
		{network.NFTables, "object ip own a", "type=4", "type=4 settings=12", true},
		{network.NFTables, "object ip own a", "type=4", "type=5 settings=12", false},
		{network.NFTables, "set ip own a", "set settings=12", "", false},
		{network.Routes, "10.9.0.0/16 dev eth0", `{"dst":"10.9.0.0/16","family":2,"dev":"eth0","table":254,"type":1,"proto":3}`, `{"dst":"10.9.0.0/16","family":2,"dev":"eth0","table":254,"type":1,"proto":3,"metrics":[900]}`, true},
		{network.Routes, "10.9.0.0/16 dev eth0", `{"dst":"10.9.0.0/16","family":2,"dev":"eth0","table":254,"type":1,"proto":3,"metrics":null}`, `{"dst":"10.9.0.0/16","family":2,"dev":"eth0","table":254,"type":1,"proto":3,"metrics":[900]}`, false},
		{network.Interfaces, "eth0", "kind=device master= mtu=1500 xdp=false down=false promiscuous=false mac=a", "kind=device master= mtu=1500 xdp=false down=false promiscuous=false mac=a noarp=true queue=5", true},
		{network.Qdiscs, "ingress of eth0", "clsact bpf:own@1:1,u32@2:1", "clsact bpf:own@1:1#aa,u32@2:1", true},
		{network.Qdiscs, "ingress of eth0", "clsact bpf:own,u32", "clsact bpf:own@1:1#aa,u32@2:1", true},
		{network.Qdiscs, "ingress of eth0", "clsact bpf:own@1:1#aa", "clsact bpf:own@1:1#bb", false},
		{network.Qdiscs, "ingress of eth0", "clsact bpf:own@1:1", "clsact bpf:own@1:2#aa", false},
		// The operator's IPsec has new keys with the machines that it had some with, and no others.
		{network.XFRM, key + "0x2", "", "state", true},
		{network.XFRM, "state 10.0.0.5 to 10.0.0.7 esp 0x2", "", "state", false},
		{network.XFRM, "policy 10.0.0.5 to 10.0.0.9 out priority 0", "", "policy", false},
	} {
		if own := network.Own(c.kind, c.name, c.before, c.now, older, older); own != c.own {
			t.Errorf("%s: %q is now %q: own is %t", c.name, c.before, c.now, own)
		}
	}
}

// TestOwnChanges: what the machine changes by itself is neither removed nor named.
func TestOwnChanges(t *testing.T) {
	inNamespace(t)
	sh(t, "ip link add docker0 type bridge; ip link set docker0 up; ip link add veth0 type veth peer name veth1; ip link set veth0 master docker0")
	before := state(t)
	sh(t, `ip link del veth0; ip link add veth2 type veth peer name veth3; ip link set veth2 master docker0; ip link set veth3 master docker0; tc qdisc add dev veth2 clsact
ip addr add 10.0.0.77/24 dev eth0 valid_lft 300 preferred_lft 300
ip route add 10.50.0.0/16 via 10.0.0.3 proto dhcp; ip -6 route add fd50::/64 dev eth0 proto ra
ip route replace default via 10.0.0.2; ip -6 addr add fe80::99/64 dev eth0; ip addr add 169.254.7.7/16 dev eth0`)
	now := state(t)
	for _, kind := range network.Kinds {
		if came, changed := drift(kind, before[kind], now[kind]); len(came)+len(changed) > 0 {
			for name := range changed {
				if strings.Contains(fmt.Sprint(before[kind][name]), `"own":true`) {
					continue
				}
				t.Errorf("%s: changed %q", kind, name)
			}
			for _, name := range came {
				t.Errorf("%s: came %q", kind, name)
			}
		}
	}
}

// TestAddressesThatStay: an address of the host's is not made to go by itself, or to be avoided, and none is added beside it; a lease may
// take the place of another.
func TestAddressesThatStay(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		came    []string
		changed []string
	}{
		"one that is to go":        {script: "ip addr change 10.0.0.5/24 dev eth0 valid_lft 600 preferred_lft 600", changed: []string{"10.0.0.5/24 on eth0"}},
		"one that is avoided":      {script: "ip -6 addr change fd00::5/64 dev eth0 preferred_lft 0", changed: []string{"fd00::5/64 on eth0"}},
		"one that is not any more": {script: "ip -6 addr change fd00::6/64 dev eth0 preferred_lft forever", changed: []string{"fd00::6/64 on eth0"}},
		"another one":              {script: "ip addr add 10.0.0.78/24 dev eth0", came: []string{"10.0.0.78/24 on eth0"}},
		"another lease":            {script: "ip addr del 10.0.0.5/24 dev eth0; ip addr add 10.0.0.78/24 dev eth0; ip route add default via 10.0.0.1"},
		"a lease for an address":   {script: "ip addr add 10.0.0.78/24 dev eth0 valid_lft 600 preferred_lft 600"},
	} {
		t.Run(name, func(t *testing.T) {
			inNamespace(t)
			sh(t, "ip -6 addr add fd00::5/64 dev eth0 nodad; ip -6 addr add fd00::6/64 dev eth0 nodad preferred_lft 0")
			before := state(t)[network.IPAddresses]
			sh(t, c.script)
			came, changed := drift(network.IPAddresses, before, state(t)[network.IPAddresses])
			if names := slices.Sorted(maps.Keys(changed)); !slices.Equal(came, c.came) || !slices.Equal(names, c.changed) {
				t.Errorf("came %q, changed %q", came, names)
			}
			must(t, network.Kernel{}.RestoreEntries(network.IPAddresses, changed))
			must(t, network.Kernel{}.RemoveEntries(network.IPAddresses, came))
			if came, changed := drift(network.IPAddresses, before, state(t)[network.IPAddresses]); len(came)+len(changed) > 0 {
				t.Errorf("after the reset came %q, changed %q", came, changed)
			}
		})
	}
}
