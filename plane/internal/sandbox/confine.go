package sandbox

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// keptCapabilities are those that software on a host gets at most. Containers of
// Kubernetes have up to AUDIT_WRITE, MKNOD and SETFCAP by default, and network plugins
// ask for BPF and PERFMON. SYSLOG is the kubelet's, which reads /dev/kmsg. What is
// left out acts on the machine as a whole: its modules, clock, ports, audit and security
// modules, suspend and kexec; and DAC_READ_SEARCH, which opens files of the machine's
// disk by number (open_by_handle_at(2)), wherever they lie.
var keptCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETPCAP,
	unix.CAP_LINUX_IMMUTABLE, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_BROADCAST, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_IPC_LOCK, unix.CAP_IPC_OWNER,
	unix.CAP_SYS_CHROOT, unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_NICE, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_TTY_CONFIG,
	unix.CAP_MKNOD, unix.CAP_LEASE, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP, unix.CAP_SYSLOG, unix.CAP_PERFMON, unix.CAP_BPF, unix.CAP_CHECKPOINT_RESTORE,
}

// confine bounds what programs may do that the calling thread starts from now on, and
// all that those start: for ever, since neither bound is taken off again. The thread must
// be locked to its goroutine. Whatever comes onto a host must come by it: root of the
// host takes over any process there that may do more, by ptrace(2).
func confine() error {
	if err := boundCapabilities(); err != nil {
		return fmt.Errorf("bound capabilities: %w", err)
	}
	if err := filterSyscalls(); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

// boundCapabilities follows capabilities(7): what root gets by execve(2) is the bounding
// set, and what is inheritable, and then ambient, besides.
func boundCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	for c := 0; ; c++ {
		// The kernel may know more than x/sys.
		bounded, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return unix.Capset(&header, &sets[0])
		}
		if err != nil {
			return err
		}
		if slices.Contains(keptCapabilities, c) {
			continue
		}
		sets[c/32].Inheritable &^= 1 << (c % 32)
		if bounded == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("drop %d: %w", c, err)
		}
	}
}
