package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process, or this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock waits for the exclusive lock on an existing file or directory. A process that ends,
// however it does, releases its locks.
func Lock(path string) (unlock func(), err error) { return lock(path, unix.LOCK_EX) }

// TryLock is Lock that fails with ErrLocked instead of waiting.
func TryLock(path string) (unlock func(), err error) {
	return lock(path, unix.LOCK_EX|unix.LOCK_NB)
}

func lock(path string, how int) (func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for err = unix.Flock(int(f.Fd()), how); errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("%s: %w", path, ErrLocked), f.Close())
	case err != nil:
		return nil, errors.Join(&os.PathError{Op: "flock", Path: path, Err: err}, f.Close())
	}
	return func() { _ = f.Close() }, nil
}
