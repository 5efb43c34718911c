package preflight

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

// fakeHost is a host as fixture: its files, and what its programs answer. A program
// without an answer fails.
type fakeHost struct {
	files    map[string]string
	programs map[string]string
	free     uint64
	hostname string
	notRoot  bool
	probe    error
	date     time.Time
}

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func (h *fakeHost) ReadFile(path string) ([]byte, error) {
	content, ok := h.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(content), nil
}

func (h *fakeHost) Glob(pattern string) []string {
	found := map[string]bool{}
	for path := range h.files {
		for ; path != "/"; path = filepath.Dir(path) {
			if ok, _ := filepath.Match(pattern, path); ok {
				found[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (h *fakeHost) Has(program string) bool {
	for line := range h.programs {
		if name, _, _ := strings.Cut(line, " "); name == program {
			return true
		}
	}
	return false
}

func (h *fakeHost) Run(_ context.Context, program string, args ...string) (string, error) {
	answer, ok := h.programs[strings.Join(append([]string{program}, args...), " ")]
	if !ok {
		return "", errors.New("exit code 1")
	}
	return answer, nil
}

func (h *fakeHost) DiskFree(string) (uint64, error) { return h.free, nil }
func (h *fakeHost) Hostname() (string, error)       { return h.hostname, nil }
func (h *fakeHost) Root() bool                      { return !h.notRoot }
func (h *fakeHost) Now() time.Time                  { return now }
func (h *fakeHost) Probe(context.Context, string) (Endpoint, error) {
	return Endpoint{Server: "https://10.0.0.1:6443", Date: h.date}, h.probe
}

// ready is a host of the distribution on which everything is in order.
func ready(release string) *fakeHost {
	return &fakeHost{
		free: 100 << 30, hostname: "node-1", date: now.Add(-time.Second),
		files: map[string]string{
			"/etc/os-release":                              release,
			"/proc/sys/kernel/osrelease":                   "6.1.0-28-amd64\n",
			"/proc/modules":                                "overlay 1 0 - Live\nbr_netfilter 1 0 - Live\n",
			"/lib/modules/6.1.0-28-amd64/modules.builtin":  "kernel/net/netfilter/nf_conntrack.ko\n",
			"/proc/sys/net/ipv4/ip_forward":                "1\n",
			"/proc/sys/net/bridge/bridge-nf-call-iptables": "1\n",
			"/proc/sys/fs/inotify/max_user_instances":      "8192\n",
			"/sys/fs/cgroup/cgroup.controllers":            "cpuset cpu io memory hugetlb pids\n",
			"/proc/swaps":                                  "Filename\tType\tSize\tUsed\tPriority\n",
			"/proc/cpuinfo":                                "processor\t: 0\nprocessor\t: 1\n",
			"/proc/meminfo":                                "MemTotal:        8000000 kB\n",
			"/etc/resolv.conf":                             "search example.com\nnameserver 192.0.2.53\n",
			"/proc/net/route":                              "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\nens3\t00000000\t01010A0A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
			"/sys/class/net/ens3/mtu":                      "1500\n",
			"/etc/machine-id":                              "0123456789abcdef0123456789abcdef\n",
			"/sys/class/dmi/id/product_uuid":               "4C4C4544-0051-3510-8052-B4C04F4A3132\n",
			"/run/systemd/system/x":                        "",
			"/run/containerd/containerd.sock":              "",
			"/etc/containerd/config.toml":                  "version = 3\n  SystemdCgroup = true\n",
			"/proc/net/tcp":                                "  sl  local_address rem_address   st\n   0: 00000000:0016 00000000:0000 0A\n",
		},
		programs: map[string]string{
			"systemctl is-system-running": "running\n", "systemctl is-enabled containerd": "enabled\n",
			"systemctl cat kubelet": "[Service]\nExecStart=/usr/bin/kubelet $KUBELET_EXTRA_ARGS\n",
			"containerd --version":  "containerd github.com/containerd/containerd/v2 v2.1.3 abc\n", "runc --version": "",
			"kubelet --version": "Kubernetes v1.36.3\n", "kubeadm version -o short": "v1.36.3\n",
			"ip": "", "mount": "", "ethtool": "", "conntrack": "", "nft": "", "iptables --version": "iptables v1.8.9 (nf_tables)\n",
			"timedatectl show --property=NTPSynchronized --value": "yes\n",
		},
	}
}

const (
	debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"
	ubuntu = "PRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nID=ubuntu\nID_LIKE=debian\n"
	rocky  = "PRETTY_NAME=\"Rocky Linux 9.5 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"
	alpine = "PRETTY_NAME=\"Alpine Linux v3.21\"\nID=alpine\n"
)

func run(h Host) Report {
	c := config.Default()
	c.Namespace = "default"
	return Run(context.Background(), h, c, nil, 0)
}

// hostSoftware replaces the packages by what `slipway-agent software install` installs.
func hostSoftware(change func(*fakeHost)) func(*fakeHost) {
	return func(h *fakeHost) {
		delete(h.files, containerdConfig)
		delete(h.programs, "systemctl is-enabled containerd")
		h.files["/etc/slipway/containerd.toml"] = "version = 3\n  SystemdCgroup = true\n"
		h.files["/etc/systemd/system/slipway-containerd.service"] = "[Service]\n"
		h.programs["systemctl is-enabled slipway-containerd"] = "enabled\n"
		change(h)
	}
}

func TestHostSoftwareIsReady(t *testing.T) {
	h := ready(debian)
	hostSoftware(func(*fakeHost) {})(h)
	if r := run(h); r.Errors+r.Warnings > 0 {
		t.Errorf("found %+v", r.Findings)
	}
}

func TestReadyHosts(t *testing.T) {
	for name, release := range map[string]string{"debian": debian, "ubuntu": ubuntu, "rocky": rocky} {
		t.Run(name, func(t *testing.T) {
			h := ready(release)
			if name == "rocky" {
				h.files["/sys/fs/selinux/enforce"] = "1"
				h.programs["rpm -q container-selinux"] = "container-selinux-2.232"
			}
			r := run(h)
			if r.Errors+r.Warnings > 0 {
				t.Errorf("a host that is in order: %+v", r.Findings)
			}
			for _, f := range r.Findings {
				if f.Remedy != "" || f.Message == "" {
					t.Errorf("finding %+v", f)
				}
			}
		})
	}
}

// TestFindings breaks one thing at a time and wants exactly that found, with the
// remedy in the distribution's own words.
func TestFindings(t *testing.T) {
	file := func(path, content string) func(*fakeHost) {
		return func(h *fakeHost) { h.files[path] = content }
	}
	without := func(lines ...string) func(*fakeHost) {
		return func(h *fakeHost) {
			for _, line := range lines {
				delete(h.files, line)
				delete(h.programs, line)
			}
		}
	}
	says := func(line, answer string) func(*fakeHost) {
		return func(h *fakeHost) { h.programs[line] = answer }
	}
	probe := func(err error) func(*fakeHost) { return func(h *fakeHost) { h.probe = err } }
	for name, c := range map[string]struct {
		release string
		change  func(*fakeHost)
		check   string
		level   Level
		message string
		remedy  string
	}{
		"not root":               {debian, func(h *fakeHost) { h.notRoot = true }, "root", Error, "not run as root", "sudo slipway-agent preflight"},
		"unknown distribution":   {alpine, func(*fakeHost) {}, "operating-system", Warning, "Alpine", "Debian"},
		"no systemd":             {debian, says("systemctl is-system-running", "offline"), "systemd", Error, "offline", "systemd"},
		"degraded":               {debian, says("systemctl is-system-running", "degraded"), "systemd", Warning, "degraded", "systemctl --failed"},
		"old kernel":             {rocky, func(h *fakeHost) { kernel(h, "4.18.0-553.el8") }, "kernel", Error, "4.18", "dnf upgrade"},
		"kernel before nftables": {ubuntu, func(h *fakeHost) { kernel(h, "5.4.0-200-generic") }, "kernel", Warning, "nftables", "apt-get"},
		"modules": {debian, func(h *fakeHost) {
			h.files["/proc/modules"] = "x 1\n"
			delete(h.files, "/proc/sys/net/bridge/bridge-nf-call-iptables")
		}, "kernel-modules", Error, "overlay, br_netfilter", "modprobe -a overlay br_netfilter"},
		"forwarding":               {debian, file("/proc/sys/net/ipv4/ip_forward", "0"), "sysctl", Error, "net.ipv4.ip_forward is 0", "sysctl --system"},
		"inotify":                  {ubuntu, file("/proc/sys/fs/inotify/max_user_instances", "128"), "sysctl", Warning, "128", "1024"},
		"cgroup v1 on Rocky":       {rocky, without("/sys/fs/cgroup/cgroup.controllers"), "cgroups", Error, "cgroup v1", "grubby"},
		"cgroup v1 on Debian":      {debian, without("/sys/fs/cgroup/cgroup.controllers"), "cgroups", Error, "cgroup v1", "update-grub"},
		"no memory controller":     {debian, file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu pids"), "cgroups", Error, "memory", "cgroup_disable"},
		"swap":                     {ubuntu, file("/proc/swaps", "Filename Type\n/swap.img file 1 0 -2\n"), "swap", Error, "/swap.img", "swapoff -a"},
		"zram":                     {rocky, file("/proc/swaps", "Filename Type\n/dev/zram0 partition 1 0 100\n"), "swap", Error, "/dev/zram0", "dnf remove -y zram-generator-defaults"},
		"one CPU":                  {debian, file("/proc/cpuinfo", "processor : 0\n"), "cpu-and-memory", Warning, "1 CPUs", ""},
		"disk full":                {debian, func(h *fakeHost) { h.free = 1 << 30 }, "disk", Error, "1 GiB", "/var/lib/containerd"},
		"disk small":               {debian, func(h *fakeHost) { h.free = 12 << 30 }, "disk", Warning, "12 GiB", "/var/lib/containerd"},
		"localhost":                {debian, func(h *fakeHost) { h.hostname = "localhost.localdomain" }, "host-name", Error, "localhost.localdomain", "hostnamectl"},
		"upper case":               {debian, func(h *fakeHost) { h.hostname = "Node-1" }, "host-name", Error, "Node-1", "hostnamectl"},
		"no machine ID":            {debian, file("/etc/machine-id", "uninitialized\n"), "machine-id", Error, "uninitialized", "systemd-machine-id-setup"},
		"machine ID of an image":   {debian, file("/var/lib/dbus/machine-id", "fedcba9876543210fedcba9876543210"), "machine-id", Warning, "dbus", "systemd-machine-id-setup"},
		"clone of an enrolled":     {ubuntu, func(h *fakeHost) { h.files["/var/lib/slipway-agent/host-name"] = "node-0" }, "machine-id", Warning, "node-0", "rm -rf /var/lib/slipway-agent"},
		"UUID of the board":        {debian, file("/sys/class/dmi/id/product_uuid", "03000200-0400-0500-0006-000700080009"), "machine-id", Warning, "UUID", "firmware"},
		"clock not set":            {rocky, says("timedatectl show --property=NTPSynchronized --value", "no\n"), "time", Warning, "not set", "dnf install -y chrony && sudo systemctl enable --now chronyd"},
		"resolver on loopback":     {debian, file("/etc/resolv.conf", "nameserver 127.0.0.53\noptions edns0\n"), "name-resolution", Error, "CoreDNS ends", "systemd-resolved"},
		"resolver on no address":   {debian, file("/etc/resolv.conf", "nameserver 0.0.0.0\n"), "name-resolution", Error, "CoreDNS ends", "systemd-resolved"},
		"resolver on ::1, too":     {debian, file("/etc/resolv.conf", "nameserver 192.0.2.53\nnameserver ::1\n"), "name-resolution", Warning, "::1", "/etc/resolv.conf"},
		"resolver of the link":     {debian, file("/etc/resolv.conf", "nameserver fe80::1%eth0\n"), "name-resolution", Warning, "link-local (fe80::1%eth0)", "its global one"},
		"no default route":         {debian, file("/proc/net/route", "Iface\tDestination\n"), "default-route", Error, "neither of IPv4 nor of IPv6", "ip route add default"},
		"no default route of IPv6": {debian, file("/proc/net/if_inet6", "fd000088000000000000000000000011 02 40 00 80     ens3\n"), "default-route", Warning, "no default route of IPv6", "nodeIP"},
		"small MTU":                {debian, file("/sys/class/net/ens3/mtu", "1450\n"), "mtu", Warning, "ens3 has an MTU of 1450", "at most 1400"},
		"tiny MTU":                 {debian, file("/sys/class/net/ens3/mtu", "576\n"), "mtu", Error, "576", "ip link set ens3"},
		"no resolver's file":       {debian, without("/etc/resolv.conf"), "name-resolution", Error, "makes no pod", "sudo touch /etc/resolv.conf"},
		"no name server":           {debian, file("/etc/resolv.conf", "search example.com\n# nameserver 192.0.2.53\nnameserver\n"), "name-resolution", Warning, "CoreDNS", "nameserver ADDRESS"},
		"no ip":                    {rocky, without("ip"), "tools", Error, "ip is not", "dnf install -y iproute"},
		"no conntrack":             {debian, without("conntrack"), "tools", Warning, "conntrack", "apt-get install -y conntrack"},
		"no packet filter":         {debian, without("nft", "iptables --version"), "packet-filter", Error, "neither", "apt-get install -y nftables iptables"},
		"iptables legacy":          {ubuntu, says("iptables --version", "iptables v1.8.7 (legacy)"), "packet-filter", Warning, "legacy", "update-alternatives"},
		"no containerd":            {rocky, without("containerd --version", "/run/containerd/containerd.sock"), "container-runtime", Error, "not installed", "dnf install -y containerd.io"},
		"bare host":                {debian, without("containerd --version", "/run/containerd/containerd.sock"), "container-runtime", Error, "not installed", "slipway-agent software install"},
		"host software is down":    {debian, hostSoftware(without("/run/containerd/containerd.sock")), "container-runtime", Error, "socket", "systemctl enable --now slipway-containerd"},
		"host software is off":     {debian, hostSoftware(without("systemctl is-enabled slipway-containerd")), "container-runtime", Warning, "at boot", "slipway-containerd"},
		"ancient containerd":       {debian, says("containerd --version", "containerd containerd.io 1.6.33 d2d"), "container-runtime", Error, "1.6.33", "download.docker.com/linux/debian "},
		"containerd 1.7":           {ubuntu, says("containerd --version", "containerd github.com/containerd/containerd 1.7.24 x"), "container-runtime", Warning, "1.36 needs 2.0.0", "download.docker.com/linux/ubuntu "},
		"Docker's containerd":      {ubuntu, file(containerdConfig, "disabled_plugins = [\"cri\"]\n SystemdCgroup = true\n"), "container-runtime", Error, "CRI plugin off", "containerd config default"},
		"cgroupfs":                 {rocky, file(containerdConfig, ""), "container-runtime", Warning, "SystemdCgroup", "SystemdCgroup = true"},
		"containerd is down":       {debian, without("/run/containerd/containerd.sock"), "container-runtime", Error, "socket", "systemctl enable --now containerd"},
		"no runc":                  {debian, without("runc --version"), "container-runtime", Error, "runc", "apt-get install -y runc"},
		"no Kubernetes on deb":     {ubuntu, without("kubelet --version", "kubeadm version -o short"), "kubernetes", Error, "no Kubernetes version", "apt-mark hold"},
		"no Kubernetes on rpm":     {rocky, without("kubelet --version", "kubeadm version -o short"), "kubernetes", Error, "no Kubernetes version", "--disableexcludes=kubernetes"},
		"versions differ":          {debian, says("kubeadm version -o short", "v1.35.4"), "kubernetes", Error, "kubelet is v1.36.3 and kubeadm is v1.35.4", "apt-get"},
		"no unit":                  {debian, without("systemctl cat kubelet"), "kubernetes", Error, "kubelet.service", "10-kubeadm.conf"},
		"kubelet off at boot":      {debian, says("systemctl is-enabled kubelet", "disabled\n"), "kubernetes", Warning, "at boot", "systemctl enable kubelet"},
		"kubelet masked":           {debian, says("systemctl is-enabled kubelet", "masked\n"), "kubernetes", Error, "masked", "systemctl unmask kubelet"},
		"unit fixed to a file":     {debian, func(h *fakeHost) { sideBySide(h, "kubeadm", "kubelet") }, "kubernetes", Warning, "starts /usr/bin/kubelet", "systemctl edit kubelet"},
		"incomplete version": {debian, func(h *fakeHost) {
			sideBySide(h, "kubelet")
			h.programs["systemctl cat kubelet"] = "ExecStart=/usr/local/bin/kubelet\n"
		}, "kubernetes", Error, "lacks kubeadm", "v1.35.4"},
		"a node already":      {debian, file("/etc/kubernetes/kubelet.conf", "x"), "clean", Error, "kubelet.conf", "kubeadm reset"},
		"foreign network":     {debian, file("/etc/cni/net.d/10-podman.conflist", "x"), "clean", Warning, "10-podman.conflist", "remove it"},
		"port taken":          {debian, file("/proc/net/tcp6", "sl\n 0: 00000000000000000000000000000000:192B 0:0 0A\n"), "ports", Error, "6443", "ss -ltnp"},
		"firewalld":           {rocky, says("systemctl is-active firewalld", "active\n"), "firewall", Warning, "firewalld", "firewall-cmd"},
		"ufw":                 {ubuntu, says("ufw status", "Status: active\n"), "firewall", Warning, "ufw", "ufw allow"},
		"SELinux":             {rocky, file("/sys/fs/selinux/enforce", "1"), "selinux", Error, "enforcing", "dnf install -y container-selinux"},
		"refused":             {debian, probe(fmt.Errorf("dial: %w", syscall.ECONNREFUSED)), "management-api", Error, "refused", "port"},
		"no route":            {debian, probe(fmt.Errorf("dial: %w", syscall.EHOSTUNREACH)), "management-api", Error, "no route", "ip route"},
		"name unknown":        {debian, probe(&net.DNSError{Name: "mgmt.example", Err: "no such host"}), "management-api", Error, "mgmt.example", "resolv.conf"},
		"other authority":     {debian, probe(x509.UnknownAuthorityError{}), "management-api", Error, "authority", "certificate-authority-data"},
		"certificate of time": {debian, probe(x509.CertificateInvalidError{Reason: x509.Expired}), "management-api", Error, "out of its time", "clock"},
		"packets dropped":     {debian, probe(context.DeadlineExceeded), "management-api", Error, "dropped", "firewalls"},
		"no kubeconfig":       {debian, probe(fs.ErrNotExist), "management-api", Error, "does not exist", "slipway host token"},
		"clock is wrong":      {debian, func(h *fakeHost) { h.date = now.Add(-time.Hour) }, "management-api", Error, "1h0m0s apart", "clock"},
	} {
		t.Run(name, func(t *testing.T) {
			h := ready(c.release)
			c.change(h)
			found := 0
			for _, f := range run(h).Findings {
				if f.Level == OK {
					continue
				}
				if f.Check != c.check {
					if c.release != alpine {
						t.Errorf("found besides: %+v", f)
					}
					continue
				}
				found++
				if f.Level != c.level || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Remedy, c.remedy) {
					t.Errorf("found %+v, want %s, %q, remedy %q", f, c.level, c.message, c.remedy)
				}
			}
			if found != 1 {
				t.Errorf("%d findings of %s, want one", found, c.check)
			}
		})
	}
}

func kernel(h *fakeHost, release string) {
	h.files["/proc/sys/kernel/osrelease"] = release
	h.files["/lib/modules/"+release+"/modules.builtin"] = "kernel/net/netfilter/nf_conntrack.ko\n"
}

func sideBySide(h *fakeHost, programs ...string) {
	for _, p := range programs {
		h.files["/opt/slipway/kubernetes/v1.35.4/"+p] = ""
	}
}

// The API server's port is that of the control-plane endpoint; only without one it is 6443.
func TestPortOfTheControlPlane(t *testing.T) {
	listening := func(port int) func(*fakeHost) {
		return func(h *fakeHost) { h.files["/proc/net/tcp"] = fmt.Sprintf("sl\n 0: 00000000:%04X 0:0 0A\n", port) }
	}
	says := func(line, output string) func(*fakeHost) {
		return func(h *fakeHost) { h.programs[line] = output }
	}
	for name, c := range map[string]struct {
		port   int
		change func(*fakeHost)
		check  string
		want   string
	}{
		"its own is taken":       {8443, listening(8443), "ports", "8443"},
		"another one is taken":   {8443, listening(6443), "ports", "free"},
		"the default is taken":   {0, listening(6443), "ports", "6443"},
		"without one":            {0, listening(8443), "ports", "free"},
		"etcd's is taken":        {443, listening(2379), "ports", "2379"},
		"firewalld":              {443, says("systemctl is-active firewalld", "active\n"), "firewall", "{443,2379-2380,10250}"},
		"ufw":                    {8443, says("ufw status", "Status: active\n"), "firewall", "ufw allow 8443,10250/tcp"},
		"firewalld, without one": {0, says("systemctl is-active firewalld", "active\n"), "firewall", "{6443,2379-2380,10250}"},
	} {
		h := ready(rocky)
		c.change(h)
		findings := Run(t.Context(), h, config.Default(), nil, c.port).Findings
		at := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == c.check })
		if at < 0 || !strings.Contains(findings[at].Message+findings[at].Remedy, c.want) {
			t.Errorf("%s: found %+v, want %q of %s", name, findings, c.want, c.check)
		}
	}
}

func TestConfigurationThatIsMissingOrWrong(t *testing.T) {
	last := func(err error) Finding {
		findings := Run(context.Background(), ready(debian), config.Default(), err, 0).Findings
		return findings[len(findings)-1]
	}
	if f := last(&config.NotFoundError{Path: "/etc/slipway/agent.yaml"}); f.Level != Warning || !strings.Contains(f.Message, "/etc/slipway/agent.yaml") {
		t.Errorf("no configuration: %+v", f)
	}
	if f := last(errors.New("namespace is required")); f.Level != Error || !strings.Contains(f.Message, "namespace") {
		t.Errorf("wrong configuration: %+v", f)
	}
}

func TestWrite(t *testing.T) {
	h := ready(rocky)
	delete(h.programs, "conntrack")
	h.files["/proc/swaps"] = "Filename\n/dev/sda2 partition\n"
	r := run(h)
	var table, asJSON bytes.Buffer
	if err := errors.Join(r.Write(&table, FormatTable), r.Write(&asJSON, FormatJSON)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LEVEL", "Error    swap", "[1]", "sudo swapoff -a", "cannot become a node like this. Errors: 1, warnings: 1."} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	var back Report
	if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || back.Errors != 1 || back.Warnings != 1 || len(back.Findings) != len(r.Findings) {
		t.Errorf("JSON gives %+v, %v", back, err)
	}
	if err := r.Write(&table, "yaml"); err == nil {
		t.Error("an unknown format is written")
	}
}

// A host with IPv6 alone has its default route there; the kernel's own on lo is none.
func TestDefaultRoutes(t *testing.T) {
	zeros := strings.Repeat("0", 32)
	route6 := func(dev string) string {
		return zeros + " 00 " + zeros + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     " + dev + "\n"
	}
	for name, c := range map[string]struct {
		v4, v6 string
		want   string
		// sends are where the kernel sends packets to an address far away.
		sends map[string]string
	}{
		"IPv6 alone":   {"Iface\n", route6("br-mgmt"), "IPv6 alone, by br-mgmt", nil},
		"IPv4 without": {"Iface\tDestination\neth0\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", route6("br-mgmt"), "the host has addresses of IPv4 and no default route of IPv4", nil},
		"blackhole":    {"Iface\tDestination\n*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n", "", "there is no default route", nil},
		"kernel's own": {"Iface\n", route6("lo"), "there is no default route", nil},
		"both, by one": {"Iface\nbond0\t00000000\t0\t3\t0\t0\t0\t00000000\t0\n", route6("bond0"), "by bond0", nil},
		"half of all":  {"Iface\nbond0\t00000000\t0\t3\t0\t0\t0\t00000080\t0\n", "", "there is no default route", nil},
		"table of IPv4": {"Iface\tDestination\neth0\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", "", "by eth1",
			map[string]string{"ip -4 route get 192.0.0.8": "192.0.0.8 via 10.0.1.1 dev eth1 table 77 src 10.0.1.5 uid 0\n    cache\n"}},
		"table of IPv6": {"Iface\n", "", "IPv6 alone, by eth1", map[string]string{"ip -6 route get 2000::1": "2000::1 from :: via fe80::1 dev eth1 table 78 proto static src fd00::5 metric 1024 pref medium\n"}},
		"two halves":    {"Iface\nbond0\t00000000\t0\t3\t0\t0\t0\t00000080\t0\n", "", "by bond0", map[string]string{"ip -4 route get 192.0.0.8": "192.0.0.8 dev bond0 src 10.0.0.5 uid 0\n"}},
		"by lo":         {"Iface\n", "", "there is no default route", map[string]string{"ip -4 route get 192.0.0.8": "local 192.0.0.8 dev lo src 127.0.0.1 uid 0\n"}},
	} {
		h := ready(debian)
		h.files["/proc/net/route"], h.files["/proc/net/ipv6_route"] = c.v4, c.v6
		maps.Copy(h.programs, c.sends)
		found := checkDefaultRoute(t.Context(), &scope{Host: h})
		if len(found) != 1 || !strings.HasPrefix(found[0].Message, c.want) {
			t.Errorf("%s: %+v, want %q", name, found, c.want)
		}
	}
}

// hostName of the configuration names the Host alone: the Node is called as the machine is.
func TestNodeIsCalledAsTheMachine(t *testing.T) {
	h, c := ready(debian), config.Default()
	h.hostname, c.HostName = "node_1", "node-1"
	if found := checkHostName(t.Context(), &scope{Host: h, config: c}); len(found) != 1 || found[0].Level != Error || !strings.Contains(found[0].Message, "node_1") {
		t.Errorf("found %+v", found)
	}
}
