package sandbox

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestSyscallFilter runs the filter on what the kernel shows it: the same call is refused
// by whatever interface it comes.
func TestSyscallFilter(t *testing.T) {
	const allow, refuse = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)
	type call struct {
		abi    *arch.Info
		number int
		want   int
	}
	for machine, interfaces := range abis {
		vm, err := bpf.NewVM(syscallFilter(interfaces))
		if err != nil {
			t.Fatal(err)
		}
		calls := map[string]call{"an interface that is not known": {&arch.Info{ID: 1}, 0, refuse}}
		for _, abi := range interfaces {
			calls[abi.Name+" mount"] = call{abi, abi.SyscallNames["mount"], allow}
			for _, name := range refusedSyscalls {
				number, known := abi.SyscallNames[name]
				if known {
					calls[abi.Name+" "+name] = call{abi, number, refuse}
				}
			}
		}
		if machine == "amd64" {
			calls["x32"] = call{arch.X86_64, 0x40000000 + arch.X86_64.SyscallNames["mount"], refuse}
		}
		for name, c := range calls {
			data := make([]byte, 64)
			// The virtual machine reads the order of networks, the kernel its own.
			binary.BigEndian.PutUint32(data[seccompNumber:], uint32(c.number))
			binary.BigEndian.PutUint32(data[seccompArch:], uint32(c.abi.ID))
			if got, err := vm.Run(data); err != nil || got != c.want {
				t.Errorf("%s: %s: %#x, %v, want %#x", machine, name, got, err, c.want)
			}
		}
	}
	for _, name := range refusedSyscalls {
		if _, wide := arch.X86_64.SyscallNames[name]; !wide && arch.I386.SyscallNames[name] == 0 {
			t.Errorf("no interface has the system call %s", name)
		}
	}
}
