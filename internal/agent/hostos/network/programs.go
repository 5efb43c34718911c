package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// hook is a place at which programs of eBPF are attached, and stay when nobody has them open or pinned any more:
// the root of the control groups, where network plugins translate the addresses of services for the whole
// host; an interface; the network namespace.
type hook struct {
	name string
	// where is a file descriptor, or the number of an interface.
	where  int
	attach ebpf.AttachType
}

// cgroupAttachments are the types of attachments to a control group, but for devices, which belong to
// whoever runs a container or a unit.
var cgroupAttachments = map[ebpf.AttachType]string{
	ebpf.AttachCGroupInetIngress: "ingress", ebpf.AttachCGroupInetEgress: "egress", ebpf.AttachCGroupInetSockCreate: "sock_create",
	ebpf.AttachCGroupSockOps: "sock_ops", ebpf.AttachCGroupInet4Bind: "bind4", ebpf.AttachCGroupInet6Bind: "bind6",
	ebpf.AttachCGroupInet4Connect: "connect4", ebpf.AttachCGroupInet6Connect: "connect6",
	ebpf.AttachCGroupInet4PostBind: "post_bind4", ebpf.AttachCGroupInet6PostBind: "post_bind6",
	ebpf.AttachCGroupUDP4Sendmsg: "sendmsg4", ebpf.AttachCGroupUDP6Sendmsg: "sendmsg6", ebpf.AttachCGroupSysctl: "sysctl",
	ebpf.AttachCGroupUDP4Recvmsg: "recvmsg4", ebpf.AttachCGroupUDP6Recvmsg: "recvmsg6",
	ebpf.AttachCGroupGetsockopt: "getsockopt", ebpf.AttachCGroupSetsockopt: "setsockopt",
	ebpf.AttachCgroupInet4GetPeername: "getpeername4", ebpf.AttachCgroupInet6GetPeername: "getpeername6",
	ebpf.AttachCgroupInet4GetSockname: "getsockname4", ebpf.AttachCgroupInet6GetSockname: "getsockname6",
	ebpf.AttachCgroupInetSockRelease: "sock_release",
}

// unifiedCgroup is the root of the control groups of version 2, as this process sees them; empty on a host without.
func unifiedCgroup() string {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		is := unix.Statfs_t{}
		if err := unix.Statfs(dir, &is); err == nil && is.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	return ""
}

// withHooks calls do with all hooks of the host.
func withHooks(do func(hook) error) error {
	links, _, err := listLinks()
	errs := []error{err}
	for _, l := range links {
		a := l.Attrs()
		errs = append(errs, do(hook{"ingress of " + a.Name, a.Index, ebpf.AttachTCXIngress}), do(hook{"egress of " + a.Name, a.Index, ebpf.AttachTCXEgress}))
	}
	if ns, err := os.Open("/proc/thread-self/ns/net"); err == nil {
		fd := int(ns.Fd())
		errs = append(errs, do(hook{"packets", fd, ebpf.AttachFlowDissector}), do(hook{"sockets", fd, ebpf.AttachSkLookup}), ns.Close())
	}
	if dir := unifiedCgroup(); dir != "" {
		top, err := os.Open(dir)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for attach, name := range cgroupAttachments {
			errs = append(errs, do(hook{name + " of all processes", int(top.Fd()), attach}))
		}
		errs = append(errs, top.Close())
	}
	return errors.Join(errs...)
}

// listPrograms calls each with the attached programs by name, and with where each is attached. Equal ones are
// told apart by a number.
func listPrograms(each func(name string, h hook, p *ebpf.Program, is *ebpf.ProgramInfo) error) error {
	seen := map[string]bool{}
	return withHooks(func(h hook) error {
		found, err := link.QueryPrograms(link.QueryOptions{Target: h.where, Attach: h.attach})
		if absent(err) || errors.Is(err, link.ErrNotSupported) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EBADF) {
			return nil // the kernel does not know the hook, or the interface went
		}
		if err != nil {
			return fmt.Errorf("list what is attached at %s: %w", h.name, err)
		}
		for _, attached := range found.Programs {
			p, err := ebpf.NewProgramFromID(attached.ID)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it went meanwhile
			}
			if err != nil {
				return err
			}
			is, err := p.Info()
			if err == nil {
				plain := fmt.Sprintf("%s at %s", is.Name, h.name)
				name := strings.TrimSpace(plain)
				for n := 2; seen[name]; n++ {
					name = fmt.Sprintf("%s (%d)", plain, n)
				}
				seen[name] = true
				err = each(name, h, p, is)
			}
			if err = errors.Join(err, p.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

func lookPrograms() (map[string]string, error) {
	found := map[string]string{}
	err := listPrograms(func(name string, _ hook, _ *ebpf.Program, is *ebpf.ProgramInfo) error {
		found[name] = "tag=" + is.Tag
		return nil
	})
	return found, err
}

func removePrograms(names []string) error {
	return listPrograms(func(name string, h hook, p *ebpf.Program, is *ebpf.ProgramInfo) error {
		if !slices.Contains(names, name) {
			return nil
		}
		return unlessGone(h.detach(p, is), "detach eBPF program "+name)
	})
}

// detach takes a program off a hook, by the link that it is attached by, if there is one.
func (h hook) detach(p *ebpf.Program, is *ebpf.ProgramInfo) error {
	failed := link.RawDetachProgram(link.RawDetachProgramOptions{Target: h.where, Program: p, Attach: h.attach})
	if failed == nil {
		return nil
	}
	id, _ := is.ID()
	all := link.Iterator{}
	defer all.Close()
	for all.Next() {
		if of, err := all.Link.Info(); err == nil && of.Program == id && h.attaches(of) {
			failed = all.Link.Detach()
		}
	}
	return errors.Join(failed, all.Err())
}

// attaches says whether a link is of the type of attachment of the hook.
func (h hook) attaches(of *link.Info) bool {
	if is := of.Cgroup(); is != nil {
		return ebpf.AttachType(is.AttachType) == h.attach
	}
	if is := of.NetNs(); is != nil {
		return ebpf.AttachType(is.AttachType) == h.attach
	}
	is := of.TCX()
	return is != nil && ebpf.AttachType(is.AttachType) == h.attach
}
