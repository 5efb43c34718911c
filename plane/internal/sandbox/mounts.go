package sandbox

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/cgroup"
)

// op is what a mountStep does.
type op int

const (
	// opDir makes a directory.
	opDir op = iota
	// opLink makes a symbolic link to source.
	opLink
	// opMount mounts fstype.
	opMount
	// opBind binds the machine's directory or file source.
	opBind
	// opOverride hides a file of the kernel behind a private one, which starts
	// with content or, without any, as a copy.
	opOverride
	// opMask hides a file or a directory.
	opMask
	// opReadonly makes a directory that is there read-only.
	opReadonly
)

// mountStep is one step in building the root of a host. Paths are the host's.
type mountStep struct {
	op       op
	path     string
	source   string
	fstype   string
	data     string
	content  string
	flags    uintptr
	readonly bool
	// optional steps are left out if the source, or what to override or mask, is not there.
	optional bool
}

const noSuidExecDev = unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV

// rootLinks are top-level directories that are links into /usr on a merged-usr
// machine, and directories of their own on others.
var rootLinks = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// mountPlan lists the steps for the spec, in order. isLink tells which of
// rootLinks are links on this machine.
func mountPlan(s Spec, bootID string, isLink func(name string) bool) []mountStep {
	var plan []mountStep
	for _, group := range [][]mountStep{
		rootSteps(isLink), diskSteps(s), kernelSteps(), deviceSteps(), cgroupSteps(s.Cgroups), softwareSteps(s), maskSteps(), overrideSteps(s, bootID),
	} {
		plan = append(plan, group...)
	}
	return plan
}

func rootSteps(isLink func(string) bool) []mountStep {
	var steps []mountStep
	for _, d := range []string{"home", "mnt", "srv", "media"} {
		steps = append(steps, mountStep{op: opDir, path: "/" + d})
	}
	for _, l := range rootLinks {
		if isLink(l) {
			steps = append(steps, mountStep{op: opLink, path: "/" + l, source: "usr/" + l})
			continue
		}
		steps = append(steps, mountStep{op: opBind, path: "/" + l, source: "/" + l, readonly: true, optional: true})
	}
	return steps
}

// diskSteps mount what survives a power cycle.
func diskSteps(s Spec) []mountStep {
	steps := []mountStep{
		overlay("/usr", "/usr", filepath.Join(s.Dir, "overlay/usr")),
		overlay("/etc", "/etc", filepath.Join(s.Dir, "overlay/etc")),
	}
	for _, d := range []string{"var", "opt", "root"} {
		steps = append(steps, mountStep{op: opBind, path: "/" + d, source: filepath.Join(s.Dir, d)})
	}
	return steps
}

func overlay(path, lower, disk string) mountStep {
	return mountStep{op: opMount, path: path, fstype: "overlay",
		data: fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, filepath.Join(disk, "upper"), filepath.Join(disk, "work"))}
}

func kernelSteps() []mountStep {
	return []mountStep{
		{op: opMount, path: "/run", fstype: "tmpfs", data: "mode=755", flags: unix.MS_NOSUID | unix.MS_NODEV},
		{op: opDir, path: "/run/lock"},
		{op: opMount, path: "/tmp", fstype: "tmpfs", data: "mode=1777", flags: unix.MS_NOSUID | unix.MS_NODEV},
		{op: opMount, path: "/proc", fstype: "proc", flags: noSuidExecDev},
		{op: opMount, path: "/sys", fstype: "sysfs", flags: noSuidExecDev},
	}
}

func deviceSteps() []mountStep {
	steps := []mountStep{{op: opMount, path: "/dev", fstype: "tmpfs", data: "mode=755", flags: unix.MS_NOSUID}}
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse"} {
		steps = append(steps, mountStep{op: opBind, path: "/dev/" + d, source: "/dev/" + d, optional: true})
	}
	steps = append(steps,
		mountStep{op: opMount, path: "/dev/pts", fstype: "devpts", data: "newinstance,ptmxmode=0666,mode=620", flags: unix.MS_NOSUID | unix.MS_NOEXEC},
		mountStep{op: opMount, path: "/dev/shm", fstype: "tmpfs", data: "mode=1777", flags: unix.MS_NOSUID | unix.MS_NODEV},
		mountStep{op: opMount, path: "/dev/mqueue", fstype: "mqueue", flags: noSuidExecDev})
	for link, target := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		steps = append(steps, mountStep{op: opLink, path: "/dev/" + link, source: target})
	}
	return steps
}

func cgroupSteps(l cgroup.Layout) []mountStep {
	var steps []mountStep
	if !l.Unified {
		steps = append(steps, mountStep{op: opMount, path: cgroup.Root, fstype: "tmpfs", data: "mode=755", flags: noSuidExecDev})
	}
	for _, m := range l.Mounts() {
		steps = append(steps, mountStep{op: opMount, path: filepath.Join(cgroup.Root, m.Dir), fstype: m.FSType, data: m.Data, flags: noSuidExecDev})
		for _, alias := range m.Aliases {
			steps = append(steps, mountStep{op: opLink, path: filepath.Join(cgroup.Root, alias), source: m.Dir})
		}
	}
	return steps
}

// softwareSteps share the bundle between all hosts: one inode, one page cache.
// The CNI plugins are an overlay because network add-ons install their own there.
func softwareSteps(s Spec) []mountStep {
	steps := []mountStep{
		{op: opBind, path: bundleMount, source: s.Bundle, readonly: true},
		{op: opBind, path: filepath.Join(programMount, "slipway-sandbox"), source: s.Sandbox, readonly: true},
		overlay("/opt/cni/bin", filepath.Join(s.Bundle, "cni"), filepath.Join(s.Dir, "overlay/cni")),
	}
	if s.Agent != "" {
		steps = append(steps, mountStep{op: opBind, path: filepath.Join(programMount, "slipway-agent"), source: s.Agent, readonly: true})
	}
	return steps
}

// overrideSteps keep the machine's global settings, which the kubelet writes, out
// of reach, and give the host an identity of its own.
func overrideSteps(s Spec, bootID string) []mountStep {
	m := s.MachineID
	uuid := m[0:8] + "-" + m[8:12] + "-" + m[12:16] + "-" + m[16:20] + "-" + m[20:32]
	steps := []mountStep{
		{op: opOverride, path: "/proc/sys/kernel/random/boot_id", content: bootID + "\n"},
		{op: opOverride, path: "/sys/class/dmi/id/product_uuid", content: uuid + "\n", optional: true},
	}
	for _, sysctl := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom",
		"kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	} {
		steps = append(steps, mountStep{op: opOverride, path: filepath.Join("/proc/sys", sysctl), optional: true})
	}
	return steps
}
