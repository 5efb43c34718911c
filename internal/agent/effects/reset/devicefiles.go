package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

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
