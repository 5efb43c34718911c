package network_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	attachment "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// attach has the kernel run a program of a type, which lets everything pass, at a place, and closes it: nothing
// but the place keeps it, or the link that is returned.
func attach(t *testing.T, name string, kind ebpf.ProgramType, at ebpf.AttachType, target int, linked bool) attachment.Link {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: kind, AttachType: at, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		rights.Skip(t, "the kernel takes no such program:", err)
	}
	defer program.Close()
	if linked {
		made, err := attachment.AttachRawLink(attachment.RawLinkOptions{Target: target, Program: program, Attach: at})
		if err != nil {
			rights.Skip(t, "the kernel takes no such link:", err)
		}
		return made
	}
	options := attachment.RawAttachProgramOptions{Target: target, Program: program, Attach: at}
	if kind == ebpf.CGroupSKB {
		options.Flags = unix.BPF_F_ALLOW_MULTI
	}
	if err := attachment.RawAttachProgram(options); err != nil {
		rights.Skip(t, "the kernel attaches no such program:", err)
	}
	return nil
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
	root, eth0 := int(cgroup.Fd()), link(t, "eth0").Attrs().Index
	attach(t, "own", ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress, root, false)
	before := state(t)[network.Programs]
	if !maps.Equal(before, map[string]string{"own at egress of all processes": before["own at egress of all processes"]}) {
		t.Fatalf("before are %v", before)
	}
	attach(t, "cil_sock", ebpf.CGroupSKB, ebpf.AttachCGroupInetEgress, root, false)
	attach(t, "cil_from", ebpf.SchedCLS, ebpf.AttachTCXIngress, eth0, false)
	for _, linked := range []attachment.Link{
		attach(t, "cil_link", ebpf.CGroupSKB, ebpf.AttachCGroupInetIngress, root, true),
		attach(t, "cil_to", ebpf.SchedCLS, ebpf.AttachTCXEgress, eth0, true),
	} {
		defer linked.Close() // somebody has these
	}
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

// TestFilterWithAnotherProgram: another program of eBPF under name, priority and handle of the operator's filter is a change.
func TestFilterWithAnotherProgram(t *testing.T) {
	inNamespace(t)
	sh(t, "tc qdisc add dev eth0 clsact")
	filter := func(result int32) {
		t.Helper()
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "own", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, result), asm.Return()}})
		if err != nil {
			rights.Skip(t, "the kernel takes no such program:", err)
		}
		defer program.Close()
		must(t, netlink.FilterReplace(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: link(t, "eth0").Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:          program.FD(), Name: "own", DirectAction: true,
		}))
	}
	filter(0)
	before := state(t)[network.Qdiscs]
	filter(0) // as a program that starts again does
	if came, changed := drift(network.Qdiscs, before, state(t)[network.Qdiscs]); len(came)+len(changed) > 0 {
		t.Errorf("of the same program came %q, and changed %q", came, changed)
	}
	filter(2)
	if _, changed := drift(network.Qdiscs, before, state(t)[network.Qdiscs]); len(changed) != 1 {
		t.Errorf("changed are %q, want the filters of eth0", changed)
	}
}
