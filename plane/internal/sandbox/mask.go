package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// maskedPaths show, or let act on, the hardware of the machine and other users of it:
// those that runc masks. None of them is in a namespace.
var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats",
	"/sys/devices/virtual/powercap", "/sys/firmware",
}

// readonlyPaths have settings of the machine. Of /proc/sys, net is the host's own, and
// settings that are a namespace's are written in the /proc of their container.
var readonlyPaths = []string{
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/mtrr",
	"/proc/sys/abi", "/proc/sys/crypto", "/proc/sys/debug", "/proc/sys/dev", "/proc/sys/fs", "/proc/sys/kernel", "/proc/sys/sunrpc", "/proc/sys/user", "/proc/sys/vm",
	"/sys",
}

// maskSteps hide what is the machine's in the file systems of the kernel. Who may mount
// can mount those once more: it keeps out whoever has these paths, and no right to mount.
func maskSteps() []mountStep {
	var steps []mountStep
	for _, path := range maskedPaths {
		steps = append(steps, mountStep{op: opMask, path: path, optional: true})
	}
	for _, path := range readonlyPaths {
		steps = append(steps, mountStep{op: opReadonly, path: path, optional: true})
	}
	return steps
}

// mask covers a file with /dev/null, and a directory with an empty one.
func mask(target string) error {
	st, err := os.Stat(target)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return unix.Mount("tmpfs", target, "tmpfs", unix.MS_RDONLY|noSuidExecDev, "mode=555")
	default:
		return unix.Mount(os.DevNull, target, "", unix.MS_BIND, "")
	}
}

// makeReadonly leaves target as it is, but for writing, and what is mounted below it.
func makeReadonly(target string) error {
	remount := func() error {
		return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|noSuidExecDev, "")
	}
	if err := remount(); !errors.Is(err, unix.EINVAL) {
		return err
	}
	// mount(2): it is no mount point yet.
	if err := unix.Mount(target, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return remount()
}
