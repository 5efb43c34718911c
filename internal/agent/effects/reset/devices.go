package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
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

// devices are the disks that are not hardware of this machine, and those that the kernel serves to others. Those without a file in /dev are of the machine around a container.
func (c Cleaner) devices() ([]device, error) {
	var all []device
	for _, list := range []func() ([]device, error){c.mappedDevices, c.scsiDevices, c.fabricDevices, c.servedDevices} {
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

// servedPatterns are those that somebody made, below the directories that come with the kernel's modules.
var servedPatterns = []string{"/sys/kernel/config/target/*/*", "/sys/kernel/config/nvmet/subsystems/*", "/sys/kernel/config/nvmet/ports/*"}

// servedDevices are what the kernel serves to other machines, by iSCSI or NVMe, without a program.
func (c Cleaner) servedDevices() ([]device, error) {
	var all []device
	for _, pattern := range servedPatterns {
		found, err := filepath.Glob(c.Root.Path(pattern))
		if err != nil {
			return nil, err
		}
		for _, at := range found {
			info, err := os.Lstat(at)
			if name := strings.TrimPrefix(strings.TrimPrefix(at, string(c.Root)), "/sys/kernel/config/"); err == nil && info.IsDir() && name != "target/core/alua" && path.Base(name) != "discovery_auth" {
				all = append(all, device{name: "served as " + name, is: "served"})
			}
		}
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

// deviceFiles is where the files of devices are. Whoever opens that of a disk to all opens the disk to them until the next boot.
const deviceFiles = "/dev"

// terminals are the files of devices whose owner changes with each login.
var terminals = []string{"tty*", "pty*", "vcs*", "console", "hvc*", "ptmx"}

// deviceFileTrace is that of the files of devices: kind, mode, owner and number. Access control lists are not compared, as a login at the
// machine itself changes them.
func (c Cleaner) deviceFileTrace() trace {
	return trace{
		kind: kindDeviceFile, word: "file of a device", gone: true,
		look: func(context.Context) (entries, error) { return c.deviceFiles() },
		own: func(ch change, _, _ entries) bool {
			// The kernel makes those of a device that comes, and removes those of one that goes.
			if ch.before == "" {
				return c.nameOfDevice(ch.now) == ch.name
			}
			return ch.now == "" && c.nameOfDevice(ch.before) == ""
		},
		remove: func(_ context.Context, names []string) error {
			errs := make([]error, 0, len(names))
			for _, name := range names {
				errs = append(errs, durable.RemoveIn(string(c.Root), name))
			}
			return errors.Join(errs...)
		},
		restore: func(_ context.Context, before entries) error {
			var errs []error
			for name := range keys(before) {
				if err := c.restoreFile(name, before[name], nil); err != nil {
					errs = append(errs, fmt.Errorf("restore %s: %w", name, err))
				}
			}
			return errors.Join(errs...)
		},
	}
}

func (c Cleaner) deviceFiles() (entries, error) {
	found := entries{}
	top := c.Root.Path(deviceFiles)
	info, err := os.Lstat(top)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the files of devices: %w", err)
	}
	own, _ := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(at, string(c.Root))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() && (d.Type()&fs.ModeDevice == 0 || isTerminal(name)) {
			return nil // it went, or is none
		}
		is := unix.Stat_t{}
		if err == nil {
			err = unix.Lstat(at, &is)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && is.Dev != own.Dev:
			return fs.SkipDir // another file system, as that of terminals
		case !d.IsDir():
			mode := modeOf(is.Mode)
			found[name] = fmt.Sprintf("%s %o %d:%d %d", mode.Type(), mode&^fs.ModeType, is.Uid, is.Gid, is.Rdev)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files of devices: %w", err)
	}
	return found, nil
}

func isTerminal(name string) bool {
	for _, p := range terminals {
		if ok, _ := path.Match(path.Join(deviceFiles, p), name); ok {
			return true
		}
	}
	return false
}

// nameOfDevice is the file that the kernel has for the device of a fingerprint; empty for a device that it does not have.
func (c Cleaner) nameOfDevice(is string) string {
	f := strings.Fields(is)
	if len(f) < 4 {
		return ""
	}
	var number uint64
	if _, err := fmt.Sscan(f[3], &number); err != nil {
		return ""
	}
	kind := "block"
	if f[0] == (fs.ModeDevice | fs.ModeCharDevice).String() {
		kind = "char"
	}
	for line := range strings.Lines(c.attribute("/sys/dev", kind, fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)), "uevent")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return path.Join(deviceFiles, name)
		}
	}
	return ""
}
