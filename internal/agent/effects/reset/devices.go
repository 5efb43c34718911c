package reset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Where the kernel lists what it makes disks of: files, encrypted or composed disks, and those of other machines. That of
// volumes stays when the kubelet and the driver of the storage end.
const (
	blockDevices = "/sys/block"
	scsiSessions = "/sys/class/iscsi_session"
	nvmeDevices  = "/sys/class/nvme"
	rbdRemove    = "/sys/bus/rbd/remove_single_major"
)

// device is one that a driver of storage makes, with how it is removed: by a program, or by what is written to a file.
type device struct {
	name, is string
	remove   []string
	path     string
}

// devices are the disks that are not hardware of this machine. Those without a file in /dev are of the machine around a container.
func (c Cleaner) devices() ([]device, error) {
	var all []device
	for _, list := range []func() ([]device, error){c.mappedDevices, c.scsiDevices, c.fabricDevices} {
		found, err := list()
		if err != nil {
			return nil, fmt.Errorf("list block devices: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// attribute is one of the kernel's of a device; empty when there is none.
func (c Cleaner) attribute(path ...string) string {
	value, err := os.ReadFile(c.Root.Path(filepath.Join(path...)))
	if err != nil {
		return "" // it went meanwhile, or is of another kind
	}
	return strings.TrimSpace(string(value))
}

// entriesOf lists a directory of the kernel, which is missing without its module.
func (c Cleaner) entriesOf(path ...string) []string {
	found, err := os.ReadDir(c.Root.Path(filepath.Join(path...)))
	if err != nil {
		return nil
	}
	names := make([]string, len(found))
	for i, e := range found {
		names[i] = e.Name()
	}
	return names
}

// mappedDevices are those that go by the program of their kind.
func (c Cleaner) mappedDevices() ([]device, error) {
	found, err := os.ReadDir(c.Root.Path(blockDevices))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var all []device
	for _, e := range found {
		name := e.Name()
		at := "/dev/" + name
		if !present(c.Root.Path(at)) {
			continue
		}
		of := func(attribute ...string) string {
			return c.attribute(append([]string{blockDevices, name}, attribute...)...)
		}
		kind := strings.TrimRight(name, "0123456789")
		switch {
		case kind == "dm-":
			mapping, uuid := of("dm", "name"), of("dm", "uuid")
			if owner, _, _ := strings.Cut(uuid, "-"); mapping != "" {
				all = append(all, device{name: "mapping " + mapping, is: "of " + owner, remove: []string{"dmsetup", "remove", "--retry", mapping}})
			}
		case kind == "loop" && of("loop", "backing_file") != "":
			all = append(all, device{name: "loop of " + of("loop", "backing_file"), is: "loop", remove: []string{"losetup", "--detach", at}})
		case kind == "nbd" && of("pid") != "":
			all = append(all, device{name: name, is: "nbd", remove: []string{"nbd-client", "-d", at}})
		case kind == "rbd":
			all = append(all, device{name: name, is: "rbd", path: rbdRemove, remove: []string{strings.TrimPrefix(name, kind)}})
		case kind == "drbd", kind == "md":
			all = append(all, device{name: name, is: kind})
		case kind == "zram" && of("disksize") != "0":
			all = append(all, device{name: name, is: kind, path: filepath.Join(blockDevices, name, "reset"), remove: []string{"1"}})
		}
	}
	return all, err
}

// scsiDevices are the sessions of iSCSI that have a disk.
func (c Cleaner) scsiDevices() ([]device, error) {
	var all []device
	for _, session := range c.entriesOf(scsiSessions) {
		disks, err := filepath.Glob(c.Root.Path(filepath.Join(scsiSessions, session, "device/target*/*/block/*")))
		if err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(session, "session")
		if target := c.attribute(scsiSessions, session, "targetname"); target != "" && slices.ContainsFunc(disks, func(disk string) bool { return present(c.Root.Path("/dev/" + filepath.Base(disk))) }) {
			all = append(all, device{name: "iSCSI " + target, is: "session", remove: []string{"iscsiadm", "--mode", "session", "--sid", id, "--logout"}})
		}
	}
	return all, nil
}

// fabricDevices are the controllers of NVMe that are other machines.
func (c Cleaner) fabricDevices() ([]device, error) {
	var all []device
	for _, name := range c.entriesOf(nvmeDevices) {
		transport, subsystem := c.attribute(nvmeDevices, name, "transport"), c.attribute(nvmeDevices, name, "subsysnqn")
		if transport == "" || transport == "pcie" || transport == "apple-nvme" || !present(c.Root.Path("/dev/"+name)) {
			continue
		}
		all = append(all, device{
			name: "NVMe " + subsystem + " by " + transport + " " + c.attribute(nvmeDevices, name, "address"), is: "controller",
			path: filepath.Join(nvmeDevices, name, "delete_controller"), remove: []string{"1"},
		})
	}
	return all, nil
}

// deviceTrace is that of disks that are not hardware.
func (c Cleaner) deviceTrace() trace {
	return trace{
		kind: kindDevice, word: "block device",
		look: func(context.Context) (entries, error) {
			all, err := c.devices()
			found := make(entries, len(all))
			for _, d := range all {
				name := d.name
				for n := 2; found[name] != ""; n++ {
					name = d.name + " (" + strconv.Itoa(n) + ")"
				}
				found[name] = d.is
			}
			return found, err
		},
		own: func(ch change, _, _ entries) bool {
			// Packages of the system, images of other container engines and of machines.
			file, loop := strings.CutPrefix(ch.name, "loop of ")
			return loop && slices.ContainsFunc(mountsOfOthers, func(dir string) bool { return strings.HasPrefix(file, dir+"/") }) || strings.HasPrefix(ch.name, "loop of /var/lib/snapd/")
		},
		remove: c.removeDevices,
	}
}

// removeDevices takes those away that others are made of last.
func (c Cleaner) removeDevices(ctx context.Context, names []string) error {
	var errs []error
	for range 3 { // a mapping of a mapping of a loop
		all, err := c.devices()
		errs = []error{err}
		for _, d := range all {
			if !slices.Contains(names, d.name) || d.remove == nil {
				continue
			}
			if d.path != "" {
				err = os.WriteFile(c.Root.Path(d.path), []byte(d.remove[0]), 0)
			} else {
				err = c.tool(ctx, d.remove[0], d.remove[1:]...)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("remove block device %s: %w", d.name, err))
			}
		}
		if errors.Join(errs...) == nil {
			return nil
		}
	}
	return errors.Join(errs...)
}
