package network

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hook is a place at which programs of eBPF are attached, and stay when nobody has them open or pinned any more:
// the root of the control groups, where network plugins translate the addresses of services for the whole
// host; an interface; the network namespace.
type hook struct {
	name string
	// where is a file descriptor, or the number of an interface.
	where uint32
	// attach is the type of attachment.
	attach uint32
}

// cgroupAttachments are the types of attachments to a control group (linux/bpf.h), but for devices, which belong to
// whoever runs a container or a unit.
var cgroupAttachments = map[uint32]string{
	unix.BPF_CGROUP_INET_INGRESS: "ingress", unix.BPF_CGROUP_INET_EGRESS: "egress", unix.BPF_CGROUP_INET_SOCK_CREATE: "sock_create",
	unix.BPF_CGROUP_SOCK_OPS: "sock_ops", unix.BPF_CGROUP_INET4_BIND: "bind4", unix.BPF_CGROUP_INET6_BIND: "bind6",
	unix.BPF_CGROUP_INET4_CONNECT: "connect4", unix.BPF_CGROUP_INET6_CONNECT: "connect6",
	unix.BPF_CGROUP_INET4_POST_BIND: "post_bind4", unix.BPF_CGROUP_INET6_POST_BIND: "post_bind6",
	unix.BPF_CGROUP_UDP4_SENDMSG: "sendmsg4", unix.BPF_CGROUP_UDP6_SENDMSG: "sendmsg6", unix.BPF_CGROUP_SYSCTL: "sysctl",
	unix.BPF_CGROUP_UDP4_RECVMSG: "recvmsg4", unix.BPF_CGROUP_UDP6_RECVMSG: "recvmsg6",
	unix.BPF_CGROUP_GETSOCKOPT: "getsockopt", unix.BPF_CGROUP_SETSOCKOPT: "setsockopt",
	unix.BPF_CGROUP_INET4_GETPEERNAME: "getpeername4", unix.BPF_CGROUP_INET6_GETPEERNAME: "getpeername6",
	unix.BPF_CGROUP_INET4_GETSOCKNAME: "getsockname4", unix.BPF_CGROUP_INET6_GETSOCKNAME: "getsockname6",
	unix.BPF_CGROUP_INET_SOCK_RELEASE: "sock_release",
}

// Attachments to an interface and to a network namespace.
const (
	attachTCXIngress = 46
	attachTCXEgress  = 47
)

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
		index := uint32(l.Attrs().Index)
		errs = append(errs, do(hook{"ingress of " + l.Attrs().Name, index, attachTCXIngress}), do(hook{"egress of " + l.Attrs().Name, index, attachTCXEgress}))
	}
	if ns, err := os.Open("/proc/thread-self/ns/net"); err == nil {
		fd := uint32(ns.Fd())
		errs = append(errs, do(hook{"packets", fd, unix.BPF_FLOW_DISSECTOR}), do(hook{"sockets", fd, unix.BPF_SK_LOOKUP}), ns.Close())
	}
	if dir := unifiedCgroup(); dir != "" {
		top, err := os.Open(dir)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for attach, name := range cgroupAttachments {
			errs = append(errs, do(hook{name + " of all processes", uint32(top.Fd()), attach}))
		}
		errs = append(errs, top.Close())
	}
	return errors.Join(errs...)
}

// maxPrograms bounds the programs of one hook; the kernel has 64 at most.
const maxPrograms = 64

// programs returns the numbers of the programs that are attached at the hook itself.
func (h hook) programs() ([]uint32, error) {
	ids := [maxPrograms]uint32{}
	query := struct {
		Target, Attach, Query, Flags uint32
		IDs                          uint64
		Count, _                     uint32
		AttachFlags, Links, LinkFlag uint64
		Revision                     uint64
	}{Target: h.where, Attach: h.attach, IDs: uint64(uintptr(unsafe.Pointer(&ids[0]))), Count: maxPrograms}
	_, err := bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&query), unsafe.Sizeof(query)-8)
	if errors.Is(err, unix.E2BIG) { // an older kernel
		_, err = bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&query), unsafe.Offsetof(query.AttachFlags))
	}
	if absent(err) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EBADF) {
		return nil, nil // it does not know the hook, or the interface went
	}
	return ids[:min(query.Count, maxPrograms)], err
}

func bpf(command uintptr, attribute unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attribute), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// byID opens a program or a link.
func byID(command uintptr, id uint32) (int, error) {
	attribute := struct{ ID, Next, Flags uint32 }{ID: id}
	return bpf(command, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
}

// information fills info with what the kernel has of an open program or link.
func information(fd int, info unsafe.Pointer, size uintptr) error {
	attribute := struct {
		FD, Size uint32
		Info     uint64
	}{uint32(fd), uint32(size), uint64(uintptr(info))}
	_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	return err
}

// programInfo is the beginning of struct bpf_prog_info.
type programInfo struct {
	Type, ID               uint32
	Tag                    [8]byte
	JitedLen, XlatedLen    uint32
	Jited, Xlated, Load    uint64
	UID, Maps              uint32
	MapIDs                 uint64
	Name                   [16]byte
	Interface, GPL         uint32
	NetnsDevice, NetnsNode uint64
}

// listPrograms returns the attached programs by name, with where each is attached and its number. Equal ones are
// told apart by a number.
func listPrograms(each func(name string, h hook, id uint32, is programInfo) error) error {
	seen := map[string]bool{}
	return withHooks(func(h hook) error {
		ids, err := h.programs()
		if err != nil {
			return fmt.Errorf("list what is attached at %s: %w", h.name, err)
		}
		for _, id := range ids {
			fd, err := byID(unix.BPF_PROG_GET_FD_BY_ID, id)
			if errors.Is(err, unix.ENOENT) {
				continue // it went meanwhile
			}
			if err != nil {
				return err
			}
			is := programInfo{}
			err = errors.Join(information(fd, unsafe.Pointer(&is), unsafe.Sizeof(is)), unix.Close(fd))
			if err != nil {
				return err
			}
			plain := fmt.Sprintf("%s at %s", text(is.Name[:]), h.name)
			name := strings.TrimSpace(plain)
			for n := 2; seen[name]; n++ {
				name = fmt.Sprintf("%s (%d)", plain, n)
			}
			seen[name] = true
			if err := each(name, h, id, is); err != nil {
				return err
			}
		}
		return nil
	})
}

func lookPrograms() (map[string]string, error) {
	found := map[string]string{}
	err := listPrograms(func(name string, _ hook, _ uint32, is programInfo) error {
		found[name] = "tag=" + hex.EncodeToString(is.Tag[:])
		return nil
	})
	return found, err
}

func removePrograms(names []string) error {
	return listPrograms(func(name string, h hook, id uint32, _ programInfo) error {
		if !slices.Contains(names, name) {
			return nil
		}
		return unlessGone(h.detach(id), "detach eBPF program "+name)
	})
}

// detach takes a program off a hook, by the link that it is attached by, if there is one.
func (h hook) detach(id uint32) error {
	attribute := struct{ Target, Program, Attach, Flags, Replace, Relative uint32 }{Target: h.where, Attach: h.attach}
	fd, err := byID(unix.BPF_PROG_GET_FD_BY_ID, id)
	if err != nil {
		return err
	}
	attribute.Program = uint32(fd)
	_, err = bpf(unix.BPF_PROG_DETACH, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
	_ = unix.Close(fd)
	if err == nil {
		return nil
	}
	detached := false
	failed := eachLink(func(link int, program, attach uint32) error {
		if program != id || attach != h.attach {
			return nil
		}
		detached = true
		attribute := struct{ FD uint32 }{uint32(link)}
		_, err := bpf(unix.BPF_LINK_DETACH, unsafe.Pointer(&attribute), unsafe.Sizeof(attribute))
		return err
	})
	if detached || failed != nil {
		return failed
	}
	return err
}

// Types of links (linux/bpf.h), and where struct bpf_link_info has the type of their attachment.
var attachmentOfLink = map[uint32]int{3: 6, 5: 5, 11: 5} // cgroup, network namespace, interface

// eachLink calls do with all links, their programs and the types of their attachments.
func eachLink(do func(link int, program, attach uint32) error) error {
	var errs []error
	next := struct{ ID, Next, Flags uint32 }{}
	for {
		if _, err := bpf(unix.BPF_LINK_GET_NEXT_ID, unsafe.Pointer(&next), unsafe.Sizeof(next)); err != nil {
			if !errors.Is(err, unix.ENOENT) {
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}
		next.ID = next.Next
		fd, err := byID(unix.BPF_LINK_GET_FD_BY_ID, next.ID)
		if err != nil {
			continue // it went meanwhile
		}
		info := [16]uint32{} // type, number, program; padding; what the type has
		if err := information(fd, unsafe.Pointer(&info), unsafe.Sizeof(info)); err != nil {
			errs = append(errs, err)
		} else if at := attachmentOfLink[info[0]]; at > 0 {
			errs = append(errs, do(fd, info[2], info[at]))
		}
		_ = unix.Close(fd)
	}
}
