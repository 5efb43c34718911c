package statedir

import (
	"fmt"
	"os"
	"syscall"
)

// others are the permission bits of a group and of everybody else.
const others = 0o077

// NotPrivateError says that a path is open to others than the user of this process.
type NotPrivateError struct {
	// Path that was looked at.
	Path string
	// UID is its owner, Mode its permissions.
	UID  uint32
	Mode os.FileMode
	// Self is the user of this process.
	Self int
}

func (e *NotPrivateError) Error() string {
	if int(e.UID) != e.Self {
		return fmt.Sprintf("%s belongs to user %d, who could read and replace what is in it: `chown -R %d:%d %s` if you trust its content, or choose another directory",
			e.Path, e.UID, e.Self, e.Self, e.Path)
	}
	mode := "700"
	if !e.Mode.IsDir() {
		mode = "600"
	}
	return fmt.Sprintf("%s has mode %03o, which lets others in; it holds secrets: `chmod %s %s`", e.Path, e.Mode.Perm(), mode, e.Path)
}

// CheckPrivate returns a *NotPrivateError unless path belongs to the user of this process and nobody
// else has any permission on it. A symbolic link is judged itself: who owns it can
// point it elsewhere.
func CheckPrivate(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the owner is not known on this system", path)
	}
	self := os.Geteuid()
	if int(stat.Uid) == self && info.Mode()&os.ModeSymlink != 0 {
		if info, err = os.Stat(path); err != nil {
			return err
		}
		if stat, ok = info.Sys().(*syscall.Stat_t); !ok {
			return fmt.Errorf("%s: the owner is not known on this system", path)
		}
	}
	if int(stat.Uid) != self || info.Mode().Perm()&others != 0 {
		return &NotPrivateError{Path: path, UID: stat.Uid, Mode: info.Mode(), Self: self}
	}
	return nil
}
