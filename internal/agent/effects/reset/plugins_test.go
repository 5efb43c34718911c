package reset_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// insideVariable says to the test that it runs on the host of TestFivePluginsOnOneHost.
const insideVariable = "SLIPWAY_TEST_PLUGINS"

// ownState is what the operator of the host has before any claim.
const ownState = `
ip link set lo up
ip link add eth0 type veth peer name peer0
ip link set eth0 up; ip link set peer0 up
ip addr add 10.0.0.5/24 dev eth0; ip addr add fd00::5/64 dev eth0 nodad
ip route add default via 10.0.0.1; ip route add 10.9.0.0/16 via 10.0.0.9; ip rule add pref 500 from 10.9.0.0/16 lookup 500
ip route add 10.9.0.0/16 via 10.0.0.9 table 500
ip neigh add 10.0.0.6 lladdr 02:00:00:00:00:06 dev eth0 nud permanent
ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up
nft 'add table ip filter; add chain ip filter INPUT { type filter hook input priority 0; policy drop; }; add rule ip filter INPUT tcp dport 22 counter accept'
nft 'add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }'
nft 'add table inet own; add set inet own admins { type ipv4_addr; }'
mkdir -p /etc/cni/net.d /opt/cni/bin /etc/sysctl.d /var/lib/own /opt/own /run/own /etc/iproute2 /usr/local/bin
echo '{"name": "own"}' >/etc/cni/net.d/00-own.conf; echo own >/opt/cni/bin/loopback; chmod 755 /opt/cni/bin/loopback
echo 'net.ipv4.ip_forward = 0' >/etc/sysctl.d/90-own.conf
`

// plugins are what network plugins do to a host, by their public descriptions. later holds what they do to
// files of the system once the bootstrap has ended.
var plugins = []struct{ name, script string }{
	{"Calico: BIRD, VXLAN and eBPF", `
ip link add vxlan.calico type vxlan id 4096 dstport 4789 local 10.0.0.5; ip addr add 10.244.3.0/32 dev vxlan.calico; ip link set vxlan.calico up
ip link add cali1a2b3c4d5e6 type veth peer name tmp1; ip link set cali1a2b3c4d5e6 up
echo 1 >/proc/sys/net/ipv4/conf/cali1a2b3c4d5e6/proxy_arp; echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/conf/eth0/rp_filter
ip route add blackhole 10.244.200.0/26 proto 80; ip route add 10.244.3.5 dev cali1a2b3c4d5e6 scope link
ip route add 10.244.201.0/26 via 10.0.0.7 proto bird; ip route add 10.244.5.0/26 via 10.244.5.0 dev vxlan.calico onlink proto 80
ip -6 route add unreachable fd00:244::/122 proto bird
ip neigh add 10.244.5.0 lladdr 66:00:00:00:00:05 dev vxlan.calico nud permanent
ip rule add pref 99 fwmark 0x100000/0x100000 lookup 1; ip route add default dev lo table 1
tc qdisc add dev eth0 clsact
nft 'add chain ip filter cali-INPUT; insert rule ip filter INPUT counter jump cali-INPUT; add rule ip filter cali-INPUT accept; add table ip mangle; add chain ip mangle cali-PREROUTING'
nft 'add chain ip filter FORWARD { policy accept; }'
mkdir -p /run/calico/cgroup /var/lib/calico /var/log/calico/cni /sys/fs/bpf/calico/tc /var/run/nodeagent; mount -t cgroup2 none /run/calico/cgroup
echo node-1 >/var/lib/calico/nodename; echo 1440 >/var/lib/calico/mtu; echo x >/var/log/calico/cni/cni.log; mkfifo /run/calico/bird.ctl
echo '{}' >/etc/cni/net.d/10-calico.conflist; echo token >/etc/cni/net.d/calico-kubeconfig; chmod 600 /etc/cni/net.d/calico-kubeconfig; echo x >/opt/cni/bin/calico
`},
	{"Cilium: native routing and overlay", `
ip link add cilium_net type veth peer name cilium_host; ip addr add 10.0.1.7/32 dev cilium_host; ip link set cilium_host up; ip link set cilium_net up
ip link add cilium_vxlan type vxlan external dstport 8472; ip link set cilium_vxlan up
ip link add lxc5e6f7a8b9c0d type veth peer name tmp2
ip route add 10.0.1.7 dev cilium_host scope link; ip route add 10.0.1.0/24 via 10.0.1.7 dev cilium_host src 10.0.1.7; ip route add 10.0.9.0/24 via 10.0.0.9 dev eth0 proto kernel
ip rule add pref 9 fwmark 0x200/0xf00 lookup 2004; ip -6 rule add pref 9 fwmark 0x200/0xf00 lookup 2004; ip rule add pref 10 fwmark 0xa00/0xf00 lookup 2005
ip route add local 0.0.0.0/0 dev lo table 2004 proto kernel; ip route add 10.0.1.7 dev cilium_host table 2005
ip rule add pref 100 lookup local; ip rule del pref 0
ip neigh add 10.0.0.8 dev eth0 managed extern_learn
tc qdisc replace dev eth0 root tbf rate 1gbit burst 1mb latency 1ms; tc qdisc replace dev eth0 clsact; ip link set eth0 gso_max_size 100000 gro_max_size 100000
nft 'add table ip nat; add chain ip nat CILIUM_POST_nat; add table ip raw; add chain ip raw CILIUM_PRE_raw'
mkdir -p /run/cilium/cgroupv2 /run/cilium/state/1234 /sys/fs/bpf/tc/globals /sys/fs/bpf/cilium/socketlb/links /var/lib/cilium
mount -t cgroup2 none /run/cilium/cgroupv2; mount -t bpf bpf /run/cilium/state/1234
echo 'net.ipv4.conf.all.rp_filter = 0' >/etc/sysctl.d/99-zzz-override_cilium.conf; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done; echo 1 >/proc/sys/net/ipv4/conf/all/forwarding
mv /etc/cni/net.d/00-own.conf /etc/cni/net.d/00-own.conf.cilium_bak; echo '{}' >/etc/cni/net.d/05-cilium.conflist; echo x >/opt/cni/bin/cilium-cni
touch /run/netns-x; mkdir -p /run/netns; touch /run/netns/cni-1; rm /run/netns-x
`},
	{"kube-router", `
ip link add kube-bridge type bridge; ip addr add 10.244.8.1/24 dev kube-bridge; ip link set kube-bridge up
ip link add kube-dummy-if type dummy 2>/dev/null || ip link add kube-dummy-if type bridge; ip addr add 10.96.0.1/32 dev kube-dummy-if
ip link add tun-1 type ipip local 10.0.0.5 remote 10.0.0.8 2>/dev/null || true; ip link add tun-2 type gre local 10.0.0.5 remote 10.0.0.8 2>/dev/null || true
ip route add 10.244.9.0/24 via 10.0.0.8 proto 17; ip rule add pref 32765 from 10.244.0.0/16 lookup 77; ip route add default via 10.0.0.8 table 77
ip route add local default dev lo table 78; ip rule add fwmark 0x4 lookup 78 pref 32764
nft 'add table ip nat; add chain ip nat KUBE-ROUTER-HAIRPIN; add chain ip filter KUBE-ROUTER-INPUT; insert rule ip filter INPUT jump KUBE-ROUTER-INPUT'
for s in arp_ignore=1 arp_announce=2; do echo ${s#*=} >/proc/sys/net/ipv4/conf/all/${s%=*}; done
mkdir -p /var/lib/kube-router; echo token >/var/lib/kube-router/kubeconfig; echo '{}' >/etc/cni/net.d/10-kuberouter.conflist; touch /run/xtables.lock
`},
	{"Multus, thin and thick", `
mkdir -p /etc/cni/net.d/multus.d /etc/cni/multus/net.d /run/multus/socket /var/lib/cni/multus/results
echo '{}' >/etc/cni/net.d/00-multus.conf; echo token >/etc/cni/net.d/multus.d/multus.kubeconfig; chmod 600 /etc/cni/net.d/multus.d/multus.kubeconfig; echo x >/opt/cni/bin/multus; echo x >/opt/cni/bin/multus-shim
echo '{}' >/var/lib/cni/multus/1234; ip link add link eth0 name net1 type macvlan mode bridge; ip link set eth0 promisc on; ip link set eth0 mtu 1400
`},
	{"Antrea and OVN-Kubernetes", `
ip link add antrea-gw0 type bridge; ip addr add 10.10.0.1/24 dev antrea-gw0; ip link set antrea-gw0 up; ip route add 10.10.1.0/24 via 10.10.1.1 dev antrea-gw0 onlink
ip link add genev_sys_6081 type geneve external dstport 6081 2>/dev/null || ip link add genev_sys_6081 type vxlan external dstport 6081
ip link add ovs-system type openvswitch 2>/dev/null || true
ip link add br-ex type bridge; ip link set br-ex up; ip link set eth0 master br-ex; ip addr del 10.0.0.5/24 dev eth0; ip addr add 10.0.0.5/24 dev br-ex; ip route add default via 10.0.0.1 dev br-ex
ip rule add pref 30 fwmark 0x1745ec lookup 7; ip route add 10.96.0.0/16 via 169.254.169.4 dev br-ex onlink
nft 'add table inet ovn-kubernetes; add chain inet ovn-kubernetes mgmtport; add chain ip filter ANTREA-FORWARD; add rule ip filter FORWARD jump ANTREA-FORWARD'
mkdir -p /run/antrea/cni /run/openvswitch /var/lib/openvswitch /run/ovn /var/lib/ovn/etc /etc/openvswitch /var/log/ovn-kubernetes /var/log/antrea
mkfifo /run/openvswitch/db.sock; echo x >/run/ovn/ovn-controller.pid; echo db >/etc/openvswitch/conf.db; echo db >/var/lib/ovn/etc/ovnnb_db.db; echo '{}' >/etc/cni/net.d/10-antrea.conflist; echo x >/opt/cni/bin/antrea
`},
	{"Weave", `
ip link add weave type bridge; ip addr add 10.32.0.1/12 dev weave; ip link set weave mtu 1376 up
ip link add vethwe-datapath type veth peer name vethwe-bridge; ip link set vethwe-bridge master weave
ip link add vxlan-6784 type vxlan external dstport 6784; ip link add vethwepl12345 type veth peer name tmp3; ip link set vethwepl12345 master weave
nft 'add table ip nat; add chain ip nat WEAVE; add chain ip filter WEAVE-NPC; add rule ip filter FORWARD jump WEAVE-NPC; add chain ip filter FORWARD { policy accept; }'
mkdir -p /var/lib/weave /run/weave; echo db >/var/lib/weave/weave-netdata.db; mkfifo /run/weave/weave.sock; echo '{}' >/etc/cni/net.d/10-weave.conflist; echo x >/opt/cni/bin/weave-net; echo x >/opt/cni/bin/weave-plugin-2.8.1
echo 1 >/proc/sys/net/ipv4/conf/weave/arp_accept; echo 1 >/proc/sys/net/ipv4/ip_forward
`},
	{"flannel with kube-proxy", `
ip link add flannel.1 type vxlan id 1 dstport 8472 local 10.0.0.5 nolearning; ip addr add 10.244.0.0/32 dev flannel.1; ip link set flannel.1 up
ip link add cni0 type bridge; ip addr add 10.244.0.1/24 dev cni0; ip link set cni0 up; ip route add 10.244.1.0/24 via 10.244.1.0 dev flannel.1 onlink
nft 'add table ip kube-proxy; add chain ip kube-proxy services; add table ip6 kube-proxy; add table inet flannel-ipv4; add table netdev kube; add table bridge kube; add table arp kube'
ip link add ipvlan1 link eth0 type ipvlan 2>/dev/null || true; ip xfrm state add src 10.0.0.5 dst 10.0.0.9 proto esp spi 0x100 mode tunnel aead 'rfc4106(gcm(aes))' 0x0102030405060708090a0b0c0d0e0f1011121314 128 2>/dev/null || true; ip xfrm policy add src 10.0.0.0/24 dst 10.0.1.0/24 dir out tmpl src 10.0.0.5 dst 10.0.0.9 proto esp mode tunnel 2>/dev/null || true
mkdir -p /run/flannel; echo x >/run/flannel/subnet.env; echo '{}' >/etc/cni/net.d/10-flannel.conflist
ip netns add cni-own 2>/dev/null; ip nexthop add id 5 via 10.0.0.9 dev eth0
`},
}

// TestFivePluginsOnOneHost: one host serves claims with seven network plugins, one after the other. After each reset
// it is proved clean, and what an independent look says of its network, mounts, cgroups, settings and files is
// what it was before.
func TestFivePluginsOnOneHost(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		onHostOfPlugins(t)
		return
	}
	level.Deep(t)
	if os.Getuid() != 0 {
		rights.Skip(t, "needs root for namespaces")
	}
	for _, program := range []string{"ip", "nft", "tc", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			rights.Skip(t, "the test needs", program)
		}
	}
	top := "/sys/fs/cgroup"
	if is := (unix.Statfs_t{}); unix.Statfs(top, &is) != nil || is.Type != unix.CGROUP2_SUPER_MAGIC {
		top += "/unified"
	}
	cgroup := filepath.Join(top, fmt.Sprintf("tested-plugins-%d", os.Getpid()))
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		rights.Skip(t, "no control group:", err)
	}
	t.Cleanup(func() { _ = os.Remove(cgroup) })
	host := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestFivePluginsOnOneHost$", "-test.v")
	host.Env = append(os.Environ(), insideVariable+"="+cgroup)
	host.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC}
	out, err := host.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// enter makes this process see a copy of the machine's files, and nothing else of it.
func enter(t *testing.T, cgroup string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const disk = "/mnt"
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("slipway", disk, "tmpfs", 0, ""))
	for _, dir := range []string{"/upper", "/work", "/root"} {
		must(os.Mkdir(disk+dir, 0o755))
	}
	root := disk + "/root"
	must(unix.Mount("overlay", root, "overlay", 0, "lowerdir=/,upperdir="+disk+"/upper,workdir="+disk+"/work"))
	must(unix.Mount("proc", root+"/proc", "proc", 0, ""))
	// Settings of the whole machine are for others to change, but for those of this network.
	must(unix.Mount(root+"/proc/sys", root+"/proc/sys", "", unix.MS_BIND, ""))
	must(unix.Mount(root+"/proc/sys/net", root+"/proc/sys/net", "", unix.MS_BIND, ""))
	must(unix.Mount("", root+"/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	must(unix.Mount("sysfs", root+"/sys", "sysfs", unix.MS_RDONLY, ""))
	must(unix.Mount(cgroup, root+"/sys/fs/cgroup", "", unix.MS_BIND, ""))
	must(unix.Mount("bpf", root+"/sys/fs/bpf", "bpf", 0, ""))
	must(unix.Mount("/dev", root+"/dev", "", unix.MS_BIND, ""))
	for _, dir := range []string{"/run", "/tmp", "/var/lib", "/var/log", "/opt", "/root", "/home", "/usr/local"} {
		must(unix.Mount("slipway", root+dir, "tmpfs", 0, ""))
	}
	must(os.Chdir(root)) //nolint:usetesting // of this thread alone, in a namespace of its own
	must(unix.PivotRoot(".", "."))
	must(unix.Unmount(".", unix.MNT_DETACH))
	must(os.Chdir("/"))                                                              //nolint:usetesting // likewise
	for _, dir := range []string{"/etc/cni", "/etc/kubernetes", "/etc/containerd"} { // those of the machine itself
		must(os.RemoveAll(dir))
	}
}

// wholeHost is an independent look at the host: what the tools of the system say, and each file.
func wholeHost(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, line := range []string{
		"ip -o link show | sed 's/^[0-9]*: //; s/@if[0-9]*//; s/ qlen [0-9]*//' | grep -v '^[^ ]*: <.*link-netnsid' | sort", "ip -o addr show | sed 's/^[0-9]*: //; s/valid_lft.*//' | grep -v 'inet6 fe80' | sort",
		"ip route show table all | grep -v fe80 | sort", "ip -6 route show table all | grep -v -e fe80 -e 'multicast ff00' | sort", "ip rule", "ip -6 rule", "ip neigh show nud permanent", "ip neigh show proxy",
		"ip neigh | grep extern_learn || true", "ip nexthop", "ip xfrm state; ip xfrm policy", "nft -s list ruleset", "tc qdisc show | sort", "ip netns", "find /sys/fs/bpf /sys/fs/cgroup -mindepth 1 -type d | sort",
		"cut -d' ' -f4- /proc/self/mountinfo | sed 's/ - .*//; s/shared:[0-9]*/shared/' | sort",
		"cd /proc/sys/net && grep -r . ipv4 ipv6 core 2>/dev/null | grep -v -e route/flush -e fastopen_key -e stable_secret -e nf_log | sort",
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for n, text := range strings.Split(string(out), "\n") {
			if strings.HasPrefix(line, "nft") {
				all[fmt.Sprintf("%s, line %03d", line, n)] = text // the order counts
			} else if text != "" {
				all[line+": "+text] = "there"
			}
		}
	}
	for _, dir := range []string{"/etc", "/opt", "/var/lib", "/var/log", "/run", "/usr/local", "/usr/libexec", "/usr/lib/systemd", "/srv", "/home"} {
		err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
			// The agent's own; what the programs mount and iptables leave for as long as the machine runs.
			if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(at, "/var/lib/slipway-agent") || strings.HasPrefix(at, "/run/mount") || at == "/run/xtables.lock" {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			owner := info.Sys().(*syscall.Stat_t)
			is := fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid)
			if info.Mode().IsRegular() {
				content, err := os.ReadFile(at)
				if err != nil {
					return err
				}
				is += fmt.Sprintf(" %x", sha256.Sum256(content))
			}
			all[at] = is
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// nobody else is in the network of the host.
func nobody(string, netip.Addr) (string, error) { return "", nil }

// noPrograms has no program of the host run: what of it there is belongs to the machine.
type noPrograms struct{}

func (noPrograms) Has(string) bool { return false }

func (noPrograms) Run(context.Context, string, ...string) ([]byte, error) {
	return nil, errors.New("no program runs")
}

func (noPrograms) RunInput(context.Context, []byte, string, ...string) ([]byte, error) {
	return nil, errors.New("no program runs")
}

// onHostOfPlugins is the test inside of the host.
func onHostOfPlugins(t *testing.T) {
	enter(t, os.Getenv(insideVariable))
	run := func(t *testing.T, script string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run(t, ownState)
	if err := netlink.IpsetCreate("own", "hash:net", netlink.IpsetCreateOptions{}); err != nil {
		t.Log("no ipsets:", err)
	}
	cleaner := reset.Cleaner{
		Runner: noPrograms{}, Network: network.Kernel{}, Probe: nobody, CRISocket: "/run/containerd/containerd.sock", Records: "/var/lib/slipway-agent/records",
		Hostname: os.Hostname, SetHostname: func(string) error { return nil }, KillInterrupted: func(context.Context) error { return nil },
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}
	first := wholeHost(t)
	for _, plugin := range plugins {
		t.Run(plugin.name, func(t *testing.T) {
			baseline, err := cleaner.Baseline(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueFiles}}
			if err := cleaner.RecordMade(t.Context(), p); err != nil { // plugins come when the bootstrap has ended
				t.Fatal(err)
			}
			run(t, plugin.script)
			if err := netlink.IpsetCreate("cali40s:"+plugin.name[:4], "hash:net", netlink.IpsetCreateOptions{}); err == nil {
				_ = netlink.IpsetAdd("cali40s:"+plugin.name[:4], &netlink.IPSetEntry{IP: net.IPv4(10, 0, 0, 0), CIDR: 24})
			}
			if left, err := cleaner.Verify(t.Context(), p.State()); err != nil || len(left) < 5 {
				t.Errorf("the leftovers are %q, %v", left, err)
			}
			for range 2 {
				if err := cleaner.Reset(t.Context(), p); err != nil {
					t.Errorf("reset: %v", err)
				}
			}
			if left, err := cleaner.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
				t.Errorf("left is %q, %v", left, err)
			}
			after := wholeHost(t)
			for _, name := range slices.Sorted(maps.Keys(first)) {
				if after[name] != first[name] {
					t.Errorf("%s was %q, and is %q", name, first[name], after[name])
				}
			}
			for _, name := range slices.Sorted(maps.Keys(after)) {
				if _, was := first[name]; !was {
					t.Errorf("%s came: %q", name, after[name])
				}
			}
		})
	}
	onAdoptedHostOfPlugins(t, cleaner, run)
}

// staysAdopted is what the release of an adopted host leaves of a plugin, as it is not told from the operator's; see docs/design/adoption.md.
var staysAdopted = regexp.MustCompile(strings.Join([]string{
	"^cd /proc/sys/net", "^/opt/cni/bin", "^/etc/cni/net.d/00-own.conf", `^nft -s list ruleset, line`, "qdisc clsact ffff: dev eth0 parent", "qdisc (noqueue|tbf) [0-9a-f]*: dev eth0 root", "type d . sort: /sys/fs/bpf/tc ",
	"ip rule: (0|100):\tfrom all lookup local", "ip rule: 99:\tfrom all fwmark", "default dev lo table 1 ", "table 7[78] ", "lookup 78 ", // made by hand above
	"^(/run/netns|/var/lib/cni|/run/flannel|/run/calico|/run/cilium) ", "/netns /run/netns ", "ip -o link show .*: (eth0@peer0|net1@eth0|vxlan-6784): ", "ip nexthop: id 5 ", "ip xfrm state; ip xfrm policy:",
}, "|"))

// onAdoptedHostOfPlugins adopts the host with the network of each plugin on it, and releases it: it is proved clean, and
// what the plugin made is gone.
func onAdoptedHostOfPlugins(t *testing.T, cleaner reset.Cleaner, run func(*testing.T, string)) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:244::/56")}
	for _, plugin := range plugins {
		if strings.HasPrefix(plugin.name, "Antrea") {
			continue // the host's own address is on a bridge, which is the operator's
		}
		t.Run("adopted, "+plugin.name, func(t *testing.T) {
			first := wholeHost(t)
			run(t, "echo '{\"name\": \"own\"}' >/etc/cni/net.d/00-own.conf\n"+plugin.script)
			baseline, err := cleaner.NodeBaseline(t.Context(), networks)
			if err != nil {
				t.Fatal(err)
			}
			p := &progress{state: journal.State{Baseline: baseline, Residue: journal.ResidueCommands}}
			for range 2 {
				if err := cleaner.Reset(t.Context(), p); err != nil {
					t.Errorf("reset: %v", err)
				}
			}
			if left, err := cleaner.Verify(t.Context(), p.State()); err != nil || len(left) > 0 {
				t.Errorf("left is %q, %v", left, err)
			}
			after := wholeHost(t)
			for name := range first {
				if _, is := after[name]; !is && !staysAdopted.MatchString(name+" ") {
					t.Errorf("%s went", name)
				}
			}
			for name, is := range after {
				if is != first[name] && !staysAdopted.MatchString(name+" ") {
					t.Errorf("%s was %q, and is %q", name, first[name], is)
				}
			}
		})
	}
}
