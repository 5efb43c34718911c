package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// writers are the permission bits by which others than the owner write.
	writers = 0o022
	// maxLinks are as many as the kernel follows; see path_resolution(7).
	maxLinks = 40
)

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
	w, err := follow(dir, emptied)
	if err != nil || w.missing {
		return err
	}
	return filepath.WalkDir(w.at, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return w.judge(at, info)
	})
}

func follow(path string, emptied []string) (*walk, error) {
	w := &walk{path: path, emptied: emptied, rest: parts(path)}
	err := w.look("/")
	for err == nil && len(w.rest) > 0 {
		err = w.next()
	}
	return w, err
}

// walk follows a path as the kernel does.
type walk struct {
	path    string
	emptied []string
	// at is how far it came, without links, and info what is there; rest are the names that
	// are left.
	at   string
	info fs.FileInfo
	rest []string
	// missing says that there is nothing at at; links counts those that were followed.
	missing bool
	links   int
}

func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}

// look goes to a path without links.
func (w *walk) look(at string) error {
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	w.at, w.info = at, info
	return w.judge(at, info)
}

func (w *walk) next() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	if name == ".." {
		return w.look(filepath.Dir(w.at))
	}
	at := filepath.Join(w.at, name)
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if w.info.Mode()&writers != 0 {
			return w.refuse(w.at, w.info, false)
		}
		w.missing, w.rest = true, nil
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return w.look(at)
	}
	if err := w.judge(at, info); err != nil {
		return err
	}
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "follow", Path: w.path, Err: syscall.ELOOP}
	}
	target, err := os.Readlink(at)
	if err != nil {
		return err
	}
	w.rest = append(parts(target), w.rest...)
	if filepath.IsAbs(target) {
		return w.look("/")
	}
	return nil
}

// judge refuses what others may write. In a directory like /tmp they may not replace what
// is not theirs, as long as it is there.
func (w *walk) judge(at string, info fs.FileInfo) error {
	if slices.Contains(w.emptied, at) {
		return w.refuse(at, info, true)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the owner is not known on this system", at)
	}
	link, sticky := info.Mode()&fs.ModeSymlink != 0, info.IsDir() && info.Mode()&fs.ModeSticky != 0
	if owned := stat.Uid == 0 || int(stat.Uid) == os.Geteuid(); owned && (link || sticky || info.Mode()&writers == 0) {
		return nil
	}
	return w.refuse(at, info, false)
}

func (w *walk) refuse(at string, info fs.FileInfo, emptied bool) error {
	e := &ReplaceableError{Path: w.path, At: at, Mode: info.Mode(), Emptied: emptied}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		e.UID = stat.Uid
	}
	return e
}
