package localhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/network"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
)

// Severity of a Finding.
type Severity string

// Severities.
const (
	// SeverityError keeps hosts from running.
	SeverityError Severity = "error"
	// SeverityWarning may make them fail later.
	SeverityWarning Severity = "warning"
)

// Code tells findings apart.
type Code string

// Codes of findings.
const (
	CodeNotRoot      Code = "NotRoot"
	CodeNamespaces   Code = "NamespacesNotPermitted"
	CodeNetwork      Code = "NetworkDevicesNotAvailable"
	CodeOverlay      Code = "OverlayNotAvailable"
	CodeCgroups      Code = "CgroupsNotAvailable"
	CodeInotify      Code = "InotifyInstancesTooFew"
	CodeMemory       Code = "MemoryTooSmall"
	CodeDisk         Code = "DiskTooSmall"
	CodeKernelTooOld Code = "KernelTooOld"
)

// Finding is something that stands in the way of local hosts.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Remedy says what to do about it.
	Remedy string `json:"remedy"`
}

// PreflightOptions says what is planned.
type PreflightOptions struct {
	// StateDir need not exist yet.
	StateDir string
	// Name of the instance.
	Name string
	// Hosts to be switched on in addition to those that are on.
	Hosts int
	// ControlPlanes among Hosts.
	ControlPlanes int
}

// What a host takes, measured with one booted host and containerd, kubelet, CNI
// and the pods of kubeadm on it.
const (
	inotifyPerHost     = 18
	memoryControlPlane = 900 << 20
	memoryWorker       = 450 << 20
	diskBase           = 1 << 30
	diskPerHost        = 512 << 20
)

// Preflight looks for everything that would keep the hosts from running. It tries
// things out rather than to guess, and leaves no trace.
func Preflight(_ context.Context, o PreflightOptions) []Finding {
	if os.Geteuid() != 0 {
		// Nothing else could be tried out.
		return []Finding{{CodeNotRoot, SeverityError, "local hosts need root, and this is user " + strconv.Itoa(os.Geteuid()), "run the command with sudo"}}
	}
	var findings []Finding
	for _, check := range []func(PreflightOptions) []Finding{checkKernel, checkNamespaces, checkCgroups, checkInotify, checkMemory, checkDisk} {
		findings = append(findings, check(o)...)
	}
	return findings
}

// checkKernel looks for entering all namespaces of a process at once (Linux 5.8).
func checkKernel(PreflightOptions) []Finding {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		defer unix.Close(fd)
		// Entering one's own UTS namespace changes nothing.
		err = network.OnOwnThread(func() error { return unix.Setns(fd, unix.CLONE_NEWUTS) })
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return []Finding{{CodeKernelTooOld, SeverityError, "the kernel cannot enter namespaces by process descriptor", "use Linux 5.8 or newer"}}
	}
	return nil
}

func checkCgroups(o PreflightOptions) []Finding {
	finding := func(message, remedy string) []Finding {
		return []Finding{{CodeCgroups, SeverityError, message, remedy}}
	}
	layout, err := cgroup.Detect()
	if err != nil {
		return finding(err.Error(), "mount cgroup2: `mount -t cgroup2 none "+cgroup.Root+"`; in a container, start it with `--privileged --cgroupns=host`")
	}
	if missing := layout.Missing(); len(missing) > 0 {
		return finding("the kubelet needs the cgroup controllers "+strings.Join(missing, ", ")+", which are not there",
			"enable them: for cgroup v2 in "+filepath.Join(cgroup.Root, "cgroup.subtree_control")+" or on the kernel's command line (cgroup_enable=memory)")
	}
	if err := layout.Writable(); err != nil {
		return finding("control groups cannot be created: "+err.Error(), "in a container, start it with `--privileged --cgroupns=host`")
	}
	return nil
}

func checkInotify(o PreflightOptions) []Finding {
	const sysctl = "/proc/sys/fs/inotify/max_user_instances"
	limit, err := readNumber(sysctl)
	if err != nil {
		return nil // a kernel without inotify limits
	}
	need := inotifyInstances() + o.Hosts*inotifyPerHost
	if need <= limit {
		return nil
	}
	return []Finding{{CodeInotify, SeverityError,
		fmt.Sprintf("%d more hosts need about %d inotify instances, and fs.inotify.max_user_instances is %d", o.Hosts, need, limit),
		fmt.Sprintf("sysctl -w fs.inotify.max_user_instances=%d", max(512, (need+127)/128*128))}}
}

// inotifyInstances counts those that root has now: the limit is per user.
func inotifyInstances() int {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	n := 0
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == "anon_inode:inotify" {
			n++
		}
	}
	return n
}

func checkMemory(o PreflightOptions) []Finding {
	available, err := memAvailable()
	if err != nil {
		return nil
	}
	need := int64(o.ControlPlanes)*memoryControlPlane + int64(o.Hosts-o.ControlPlanes)*memoryWorker
	if need <= available {
		return nil
	}
	return []Finding{{CodeMemory, SeverityWarning,
		fmt.Sprintf("%d hosts take about %s of memory, and %s is available", o.Hosts, gib(need), gib(available)),
		"use fewer hosts (--hosts), or free some memory"}}
}

func memAvailable() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b))
	i := slices.Index(f, "MemAvailable:")
	if i < 0 || i+1 >= len(f) {
		return 0, errors.New("no MemAvailable")
	}
	kib, err := strconv.ParseInt(f[i+1], 10, 64)
	return kib << 10, err
}

func checkDisk(o PreflightOptions) []Finding {
	dir := existing(o.StateDir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return []Finding{{CodeDisk, SeverityError, fmt.Sprintf("%s: %v", dir, err), "name another directory with --state-dir"}}
	}
	need, free := int64(diskBase)+int64(o.Hosts)*diskPerHost, int64(st.Bavail)*st.Bsize
	if need <= free {
		return nil
	}
	return []Finding{{CodeDisk, SeverityError,
		fmt.Sprintf("%d hosts take up to %s of disk, and %s has %s left", o.Hosts, gib(need), dir, gib(free)),
		"free some space, or name another directory with --state-dir"}}
}

// existing is path or its nearest parent that exists.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func readNumber(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
