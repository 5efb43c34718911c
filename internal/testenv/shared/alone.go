package shared

import (
	"errors"
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

// Once calls do to make what is shared at path, unless it is there: path says of what it is
// made, so it never has to be made anew. do writes it to the path that it is given, where
// nothing is; if it is ended midway, nothing is at path.
func Once(path string, do func(path string) error) error {
	return Alone(path, func() error {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		unfinished := path + ".unfinished"
		if err := os.RemoveAll(unfinished); err != nil {
			return err
		}
		if err := do(unfinished); err != nil {
			return err
		}
		return os.Rename(unfinished, path)
	})
}
