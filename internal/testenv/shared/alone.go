package shared

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Alone calls do, which makes what is shared at path, while no other process does. The folder
// of path is there by then.
func Alone(path string, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	return do()
}
