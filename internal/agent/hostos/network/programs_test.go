package network_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func bpf(t *testing.T, command uintptr, attribute unsafe.Pointer, size uintptr) int {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attribute), size)
	if errno != 0 {
		rights.Skip(t, "the kernel takes no such program:", errno)
	}
	return int(fd)
}

// attach has the kernel run a program of a type, which lets everything pass, at a place, and closes it: nothing
// but the place keeps it.
func attach(t *testing.T, name string, kind uint32, target, at uint32, link bool) (linked int) {
	t.Helper()
	code := []uint64{0x00000001_000000b7, 0x95} // r0 = 1; exit
	license := []byte("GPL\x00")
	load := struct {
		Type, Count        uint32
		Code, License      uint64
		LogLevel, LogSize  uint32
		Log                uint64
		Version, Flags     uint32
		Name               [16]byte
		Interface, Expects uint32
	}{Type: kind, Count: uint32(len(code)), Code: uint64(uintptr(unsafe.Pointer(&code[0]))), License: uint64(uintptr(unsafe.Pointer(&license[0]))), Expects: at}
	copy(load.Name[:], name)
	program := bpf(t, unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	defer func() { _ = unix.Close(program) }()
	if link {
		attribute := struct{ Program, Target, Attach, Flags uint32 }{uint32(program), target, at, 0}
		return bpf(t, unix.BPF_LINK_CREATE, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	}
	attribute := struct{ Target, Program, Attach, Flags, Replace, Relative uint32 }{Target: target, Program: uint32(program), Attach: at}
	if kind == unix.BPF_PROG_TYPE_CGROUP_SKB {
		attribute.Flags = unix.BPF_F_ALLOW_MULTI
	}
	bpf(t, unix.BPF_PROG_ATTACH, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	return -1
}

// ownCgroups has the thread see an empty cgroup as the root of all.
func ownCgroups(t *testing.T) *os.File {
	t.Helper()
	top := "/sys/fs/cgroup"
	if is := (unix.Statfs_t{}); unix.Statfs(top, &is) != nil || is.Type != unix.CGROUP2_SUPER_MAGIC {
		top += "/unified"
	}
	own := filepath.Join(top, "slipway-programs-test")
	if err := os.Mkdir(own, 0o755); err != nil {
		rights.Skip(t, "no control group:", err)
	}
	t.Cleanup(func() { _ = os.Remove(own) })
	must(t, unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS)) // the thread ends with the test
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount(own, "/sys/fs/cgroup", "", unix.MS_BIND, ""))
	dir, err := os.Open("/sys/fs/cgroup")
	must(t, err)
	t.Cleanup(func() { _ = unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH); _ = os.Remove(own) })
	return dir
}

// TestProgramsThatNobodyHas: programs of eBPF that a plugin attached to all processes, or to an interface, without a
// file system that shows them, as Cilium and Calico translate the addresses of services, are found and go. Those
// that were there stay.
func TestProgramsThatNobodyHas(t *testing.T) {
	inNamespace(t)
	cgroup := ownCgroups(t)
	root, eth0 := uint32(cgroup.Fd()), uint32(link(t, "eth0").Attrs().Index)
	const ingress, schedCLS = 46, unix.BPF_PROG_TYPE_SCHED_CLS
	attach(t, "own", unix.BPF_PROG_TYPE_CGROUP_SKB, root, unix.BPF_CGROUP_INET_EGRESS, false)
	before := state(t)[network.Programs]
	if !maps.Equal(before, map[string]string{"own at egress of all processes": before["own at egress of all processes"]}) {
		t.Fatalf("before are %v", before)
	}
	attach(t, "cil_sock", unix.BPF_PROG_TYPE_CGROUP_SKB, root, unix.BPF_CGROUP_INET_EGRESS, false)
	attach(t, "cil_from", schedCLS, eth0, ingress, false)
	linked := []int{
		attach(t, "cil_link", unix.BPF_PROG_TYPE_CGROUP_SKB, root, unix.BPF_CGROUP_INET_INGRESS, true),
		attach(t, "cil_to", schedCLS, eth0, ingress+1, true),
	}
	defer func() { // somebody has these
		for _, fd := range linked {
			_ = unix.Close(fd)
		}
	}()
	came, changed := drift(network.Programs, before, state(t)[network.Programs])
	want := []string{"cil_from at ingress of eth0", "cil_link at ingress of all processes", "cil_sock at egress of all processes", "cil_to at egress of eth0"}
	if !slices.Equal(came, want) || len(changed) > 0 {
		t.Fatalf("came %q, changed %q", came, changed)
	}
	for range 2 {
		must(t, network.Kernel{}.RemoveEntries(network.Programs, came))
	}
	if after := state(t)[network.Programs]; !maps.Equal(after, before) {
		t.Errorf("after are %v", after)
	}
}
