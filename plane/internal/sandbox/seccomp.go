package sandbox

import (
	"runtime"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refusedSyscalls act on the machine as a whole, whatever namespace the caller is in, and
// no software of a node needs them: modules, another kernel, the clock, swap, accounting,
// ports, the kernel's log (which the kubelet reads as /dev/kmsg), files by number. Keys of
// the machine's root are those of a host's root, since both are user 0.
var refusedSyscalls = []string{
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
	"settimeofday", "clock_settime", "clock_settime64", "stime", "swapon", "swapoff", "acct", "iopl", "ioperm", "syslog", "open_by_handle_at",
	"add_key", "request_key", "keyctl",
}

// abis are the system call interfaces that programs of an architecture can use: who is
// refused by one tries the other.
var abis = map[string][]*arch.Info{
	"amd64": {arch.X86_64, arch.I386},
	"arm64": {arch.AARCH64, arch.ARM},
}

// Offsets in the kernel's struct seccomp_data.
const (
	seccompNumber = 0
	seccompArch   = 4
)

// syscallFilter is a program for seccomp(2): refused system calls fail with ENOSYS, as in
// a kernel that was built without them, which programs are ready for; so does all that
// comes by an interface that is not in the list.
func syscallFilter(interfaces []*arch.Info) []bpf.Instruction {
	// The ABI x32 has the architecture of x86-64, and numbers from here on.
	const x32 = 0x40000000
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: seccompArch, Size: 4}}
	for _, abi := range interfaces {
		block := []bpf.Instruction{bpf.LoadAbsolute{Off: seccompNumber, Size: 4}}
		if abi == arch.X86_64 {
			block = append(block, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32, SkipFalse: 1}, refuse)
		}
		for _, name := range refusedSyscalls {
			if number, known := abi.SyscallNames[name]; known {
				block = append(block, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(number), SkipFalse: 1}, refuse)
			}
		}
		block = append(block, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(abi.ID), SkipFalse: uint8(len(block))})
		program = append(program, block...)
	}
	return append(program, refuse)
}

// filterSyscalls applies the filter to the calling thread. On an architecture whose
// system calls are not known here the capabilities have to do.
func filterSyscalls() error {
	interfaces, known := abis[runtime.GOARCH]
	if !known {
		return nil
	}
	assembled, err := bpf.Assemble(syscallFilter(interfaces))
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, 0, len(assembled))
	for _, i := range assembled {
		filter = append(filter, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Without the bit that would end set-user-ID programs: CAP_SYS_ADMIN may. And without the
	// mitigations of speculation that kernels before 5.16 give whoever has a filter: all
	// programs of a host would be slower than those of the machine.
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}
