package preflight

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
)

func checkRoot(_ context.Context, s *scope) []Finding {
	if !s.Root() {
		return bad(Error, "sudo slipway-agent preflight", "not run as root: the agent runs as root, and some checks see nothing without it")
	}
	return nil
}

func checkOperatingSystem(_ context.Context, s *scope) []Finding {
	if s.distro.family == familyOther {
		return bad(Warning, "compare the findings with the documentation of your system; the commands below are those of Debian",
			"%q is not known to be like Debian, Ubuntu or Red Hat Enterprise Linux", s.distro.name)
	}
	return good("%s", s.distro.name)
}

func checkSystemd(ctx context.Context, s *scope) []Finding {
	if !s.Has("systemctl") {
		return bad(Error, "use a host that is booted with systemd", "there is no systemctl: kubeadm and the agent start the kubelet through systemd")
	}
	// It fails for every state but running, and says which in either case.
	state, _ := s.Run(ctx, "systemctl", "is-system-running")
	switch state = strings.TrimSpace(state); state {
	case "running":
		return good("running")
	case "degraded", "starting", "initializing":
		return bad(Warning, "systemctl --failed; systemctl list-jobs", "the system is %s: not every service has started", state)
	}
	return bad(Error, "use a host that is booted with systemd", "systemd does not run here (systemctl says %q)", state)
}

// oldestKernel is what Kubernetes supports; nftablesKernel what kube-proxy needs for
// mode nftables.
var (
	oldestKernel   = version.MustParseGeneric("4.19")
	nftablesKernel = version.MustParseGeneric("5.13")
)

func checkKernel(_ context.Context, s *scope) []Finding {
	release := s.text("/proc/sys/kernel/osrelease")
	v, err := version.ParseGeneric(release)
	if err != nil {
		return bad(Warning, "", "the kernel version %q could not be read", release)
	}
	upgrade := s.distro.either("sudo apt-get update && sudo apt-get full-upgrade -y && sudo reboot", "sudo dnf upgrade -y kernel && sudo reboot")
	switch {
	case v.LessThan(oldestKernel):
		return bad(Error, upgrade, "kernel %s is older than %s, the oldest that Kubernetes supports", release, oldestKernel)
	case v.LessThan(nftablesKernel):
		return bad(Warning, upgrade, "kernel %s is older than %s: kube-proxy cannot use nftables on it", release, nftablesKernel)
	}
	return good("%s", release)
}

// modules of the kernel, each with a file that is there once it works.
var modules = []struct{ name, evidence string }{
	{"overlay", ""},
	{"br_netfilter", "/proc/sys/net/bridge/bridge-nf-call-iptables"},
	{"nf_conntrack", "/proc/sys/net/netfilter/nf_conntrack_max"},
}

func checkModules(_ context.Context, s *scope) []Finding {
	loaded, builtin := s.text("/proc/modules"), s.text(path.Join("/lib/modules", s.text("/proc/sys/kernel/osrelease"), "modules.builtin"))
	var missing []string
	for _, m := range modules {
		there := strings.HasPrefix(loaded, m.name+" ") || strings.Contains(loaded, "\n"+m.name+" ") ||
			strings.Contains(builtin, "/"+m.name+".ko") || m.evidence != "" && s.exists(m.evidence) ||
			m.name == "overlay" && strings.Contains(s.text("/proc/filesystems"), "overlay")
		if !there {
			missing = append(missing, m.name)
		}
	}
	if len(missing) == 0 {
		return good("overlay, br_netfilter and nf_conntrack are there")
	}
	names := strings.Join(missing, " ")
	return bad(Error, fmt.Sprintf("printf '%%s\\n' %s | sudo tee /etc/modules-load.d/kubernetes.conf && sudo modprobe -a %s", names, names),
		"kernel modules that pods and their network need are not loaded: %s", strings.Join(missing, ", "))
}

// sysctls that a node needs, and how bad another value is.
var sysctls = []struct {
	name, want string
	level      Level
}{
	{"net.ipv4.ip_forward", "1", Error},
	{"net.bridge.bridge-nf-call-iptables", "1", Warning},
}

// fewInotify is a value of fs.inotify.max_user_instances that a full node uses up.
const fewInotify = 256

func checkSysctls(_ context.Context, s *scope) []Finding {
	var found []Finding
	set := func(name, value string) string {
		return fmt.Sprintf("echo '%s = %s' | sudo tee -a /etc/sysctl.d/90-kubernetes.conf && sudo sysctl --system", name, value)
	}
	for _, c := range sysctls {
		file := "/proc/sys/" + strings.ReplaceAll(c.name, ".", "/")
		// A missing one belongs to a module of the check before.
		if got := s.text(file); s.exists(file) && got != c.want {
			found = append(found, bad(c.level, set(c.name, c.want), "%s is %s, not %s", c.name, got, c.want)...)
		}
	}
	if n, err := strconv.Atoi(s.text("/proc/sys/fs/inotify/max_user_instances")); err == nil && n < fewInotify {
		found = append(found, bad(Warning, set("fs.inotify.max_user_instances", "1024"), "fs.inotify.max_user_instances is %d: a node with many pods uses that up", n)...)
	}
	if len(found) == 0 {
		return good("forwarding is on")
	}
	return found
}

func checkCgroups(_ context.Context, s *scope) []Finding {
	const grub = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=1\""
	toV2 := s.distro.either("add "+grub+" to /etc/default/grub, then sudo update-grub && sudo reboot",
		"sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1 && sudo reboot")
	controllers := strings.Fields(s.text("/sys/fs/cgroup/cgroup.controllers"))
	if len(controllers) == 0 {
		return bad(Error, toV2, "the host uses cgroup v1, which the kubelet refuses from Kubernetes 1.35 on unless failCgroupV1 is false")
	}
	var missing []string
	for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
		if !slices.Contains(controllers, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		return bad(Error, "take cgroup_disable=... off the kernel's command line and reboot", "cgroup controllers are switched off: %s", strings.Join(missing, ", "))
	}
	return good("cgroup v2")
}

func checkSwap(_ context.Context, s *scope) []Finding {
	var devices []string
	for i, line := range strings.Split(s.text("/proc/swaps"), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 0 {
			devices = append(devices, fields[0])
		}
	}
	if len(devices) == 0 {
		return good("off")
	}
	remedy := "sudo swapoff -a && sudo sed -i '/\\sswap\\s/s/^/#/' /etc/fstab"
	if slices.ContainsFunc(devices, func(d string) bool { return strings.Contains(d, "zram") }) {
		remedy = s.distro.either("sudo apt-get remove -y zram-tools systemd-zram-generator", "sudo dnf remove -y zram-generator-defaults") + " && sudo swapoff -a"
	}
	return bad(Error, remedy, "swap is on (%s): the kubelet does not start unless failSwapOn is false", strings.Join(devices, ", "))
}

const (
	// What kubeadm asks of a control plane.
	fewCPUs    = 2
	littleMiB  = 1700
	kibPerMiB  = 1 << 10
	bytesPerGB = 1 << 30
	// diskWanted is the free space, in GiB, that images and pods soon use.
	diskWanted = 20
)

func checkResources(_ context.Context, s *scope) []Finding {
	cpus := strings.Count("\n"+s.text("/proc/cpuinfo"), "\nprocessor")
	var kib int
	for line := range strings.Lines(s.text("/proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, _ = strconv.Atoi(fields[1])
		}
	}
	mib := kib / kibPerMiB
	if cpus < fewCPUs || mib < littleMiB {
		return bad(Warning, "", "%d CPUs and %d MiB of memory: enough for a small worker, not for a control plane (%d CPUs, %d MiB)", cpus, mib, fewCPUs, littleMiB)
	}
	return good("%d CPUs, %d MiB", cpus, mib)
}

func checkDisk(_ context.Context, s *scope) []Finding {
	const dir = "/var/lib"
	free, err := s.DiskFree(dir)
	if err != nil {
		return bad(Warning, "", "the free space below %s could not be read: %v", dir, err)
	}
	gib := free / bytesPerGB
	const remedy = "grow the file system, or mount larger ones at /var/lib/containerd and /var/lib/kubelet"
	switch {
	case gib < inventory.DiskNeededGiB:
		return bad(Error, remedy, "%d GiB are free below %s: images and pods need at least %d GiB", gib, dir, inventory.DiskNeededGiB)
	case gib < diskWanted:
		return bad(Warning, remedy, "%d GiB are free below %s: the kubelet starts to remove images and pods when little is left", gib, dir)
	}
	return good("%d GiB free below %s", gib, dir)
}
