package localhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// anyMinor stands for all minor numbers of a device.
const anyMinor = -1

// hostDevices are the character devices that a host may open: those that containers have
// by default, and /dev/kmsg, /dev/fuse and /dev/net/tun. Disks are block devices.
var hostDevices = []struct{ major, minor int32 }{
	{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {1, 11}, // null, zero, full, random, urandom, kmsg
	{5, 0}, {5, 1}, {5, 2}, {136, anyMinor}, // tty, console, ptmx, pts
	{10, 200}, {10, 229}, // net/tun, fuse
}

// deviceGuard names the program, by what it permits: another list is another name.
const deviceGuard = "slipway_dev_1"

// guardDevices keeps the hosts of an instance from the devices of the machine, whatever
// nodes they make: a program of the kernel at the group above theirs, where no host can take
// it off. Whatever programs containers get there is asked besides. Without a cgroup2 there
// is no such place.
func guardDevices(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	guarded, err := isGuarded(dir)
	if err != nil || guarded {
		return err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: deviceGuard, Type: ebpf.CGroupDevice, Instructions: deviceProgram(), License: "Apache-2.0"})
	if err != nil {
		return fmt.Errorf("load the guard of devices (the kernel needs CONFIG_CGROUP_BPF): %w", err)
	}
	defer program.Close()
	group, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer group.Close()
	err = link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(group.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	})
	if err != nil {
		return fmt.Errorf("attach the guard of devices to %s: %w", filepath.Clean(dir), err)
	}
	return nil
}

// isGuarded says whether the guard is there already.
func isGuarded(dir string) (bool, error) {
	group, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer group.Close()
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return false, fmt.Errorf("look for the guard of devices at %s (the kernel needs CONFIG_CGROUP_BPF): %w", dir, err)
	}
	for _, a := range attached.Programs {
		program, err := ebpf.NewProgramFromID(a.ID)
		if errors.Is(err, os.ErrNotExist) {
			continue // taken off meanwhile
		}
		if err != nil {
			return false, err
		}
		info, err := program.Info()
		if err := errors.Join(err, program.Close()); err != nil {
			return false, err
		}
		if info.Name == deviceGuard {
			return true, nil
		}
	}
	return false, nil
}

// deviceProgram permits what is in the list, and to make nodes of any, which alone is
// harmless: images have some. Its context is the kernel's struct bpf_cgroup_dev_ctx.
func deviceProgram() asm.Instructions {
	const (
		accessType, major, minor = 0, 4, 8
		permit                   = "permit"
	)
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, accessType, asm.Word),
		// The type is in the lower half, the access in the upper.
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.RSh.Imm(asm.R3, 16),
		asm.JEq.Imm(asm.R3, unix.BPF_DEVCG_ACC_MKNOD, permit),
		asm.And.Imm(asm.R2, 0xffff),
		asm.JNE.Imm(asm.R2, unix.BPF_DEVCG_DEV_CHAR, "refuse"),
		asm.LoadMem(asm.R4, asm.R1, major, asm.Word),
		asm.LoadMem(asm.R5, asm.R1, minor, asm.Word),
	}
	for i, d := range hostDevices {
		next := fmt.Sprintf("after-%d", i)
		program = append(program, asm.JNE.Imm(asm.R4, d.major, next))
		if d.minor == anyMinor {
			program = append(program, asm.Ja.Label(permit))
		} else {
			program = append(program, asm.JEq.Imm(asm.R5, d.minor, permit))
		}
		program = append(program, asm.Mov.Reg(asm.R4, asm.R4).WithSymbol(next))
	}
	return append(program,
		asm.Mov.Imm(asm.R0, 0).WithSymbol("refuse"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol(permit),
		asm.Return(),
	)
}
