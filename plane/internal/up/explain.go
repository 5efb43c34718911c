package up

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// scarce is how little room makes the disk the likely cause of a failure: less
// than one segment of etcd's log.
const scarce = 64 << 20

// DiskFullError says that the disk of the state directory is full.
type DiskFullError struct {
	Dir string
	Err error
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("%v: the disk of %s is full; make room on it, then `slipway up` goes on", e.Err, e.Dir)
}

func (e *DiskFullError) Unwrap() error { return e.Err }

// explain adds the remedy to what a full disk makes fail. The plane cannot even
// write down why it ended then, so the disk itself is asked as well.
func (s *Session) explain(err error) error {
	var full *DiskFullError
	if errors.As(err, &full) {
		return err
	}
	var fs unix.Statfs_t
	if errors.Is(err, unix.ENOSPC) || unix.Statfs(s.Instance.Dir, &fs) == nil && s.begun && int64(fs.Bavail)*fs.Bsize < scarce {
		return &DiskFullError{s.Instance.Dir, err}
	}
	return err
}
