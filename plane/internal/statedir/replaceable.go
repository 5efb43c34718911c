package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/slipway-dev/slipway/internal/durable"
)

// writers are the permission bits by which others than the owner write.
const writers = 0o022

// ReplaceableError says that somebody else decides what is at a path.
type ReplaceableError struct {
	// Path that was looked at, and At the part of it that is open to others.
	Path, At string
	// UID owns At, whose permissions are Mode.
	UID  uint32
	Mode os.FileMode
	// Emptied says that others are let in by the next boot.
	Emptied bool
}

func (e *ReplaceableError) Error() string {
	switch {
	case e.Emptied:
		return fmt.Sprintf("%s is in %s, which is emptied, and where any user of this machine may put something in its place then", e.Path, e.At)
	case e.Mode&writers != 0:
		return fmt.Sprintf("%s can be replaced by other users of this machine: %s has mode %04o", e.Path, e.At, e.Mode.Perm())
	}
	return fmt.Sprintf("%s can be replaced by user %d of this machine, to whom %s belongs", e.Path, e.UID, e.At)
}

// CheckReplaceable returns a *ReplaceableError unless root and the user of this process
// alone decide what is found at an absolute path, links on the way included. What is not
// there passes where nobody else may make it. The emptied directories are those whose
// contents do not outlive a boot.
func CheckReplaceable(path string, emptied ...string) error {
	_, err := follow(path, emptied)
	return err
}

// CheckAllReplaceable is CheckReplaceable for a directory and everything in it.
func CheckAllReplaceable(dir string, emptied ...string) error {
	found, err := follow(dir, emptied)
	if err != nil || found == "" {
		return err
	}
	return filepath.WalkDir(found, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return judge(dir, at, info, emptied)
	})
}

// follow returns the path without links; empty when nothing is there.
func follow(path string, emptied []string) (string, error) {
	found, err := durable.Visit(path, func(at string, info fs.FileInfo) error { return judge(path, at, info, emptied) })
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	above, err := os.Lstat(found)
	if err == nil && above.Mode()&writers != 0 {
		err = refuse(path, found, above, false)
	}
	return "", err
}

// judge refuses what others may write. In a directory like /tmp they may not replace what
// is not theirs, as long as it is there.
func judge(path, at string, info fs.FileInfo, emptied []string) error {
	if slices.Contains(emptied, at) {
		return refuse(path, at, info, true)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the owner is not known on this system", at)
	}
	link, sticky := info.Mode()&fs.ModeSymlink != 0, info.IsDir() && info.Mode()&fs.ModeSticky != 0
	if owned := stat.Uid == 0 || int(stat.Uid) == os.Geteuid(); owned && (link || sticky || info.Mode()&writers == 0) {
		return nil
	}
	return refuse(path, at, info, false)
}

func refuse(path, at string, info fs.FileInfo, emptied bool) error {
	e := &ReplaceableError{Path: path, At: at, Mode: info.Mode(), Emptied: emptied}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		e.UID = stat.Uid
	}
	return e
}
