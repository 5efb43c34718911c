package etcd

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// LockedError says that another process uses the data directory.
type LockedError struct {
	Path string
	// PID is the process that holds the lock, 0 when it cannot be told.
	PID int
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("etcd's data %s is in use by %s: stop it, or choose another state directory", e.Path, who)
}

// NoSpaceError says that the disk below the data directory is full.
type NoSpaceError struct {
	Dir string
	// Free is the space left, Need the least etcd can start with, in bytes.
	Free, Need uint64
	// Err is what etcd said, nil when the check before its start failed.
	Err error
}

func (e *NoSpaceError) Error() string {
	const mib = 1 << 20
	msg := fmt.Sprintf("the disk of %s is full (%d MiB free, %d MiB needed): free some space, then start again; what was committed is kept",
		e.Dir, e.Free/mib, e.Need/mib)
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

func (e *NoSpaceError) Unwrap() error { return e.Err }

// QuotaError says that the database reached its quota and refuses writes. It
// goes away by itself when enough was deleted.
type QuotaError struct {
	Quota int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("etcd's database reached its quota of %d MiB and refuses writes: delete objects; space comes back within minutes", e.Quota>>20)
}

// explain turns what etcd says when it dies into an error with a remedy.
func (s *Server) explain(err error) error {
	// etcd puts system errors into log fields as text, hence the second test.
	if errors.Is(err, syscall.ENOSPC) || err != nil && strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return &NoSpaceError{Dir: s.opts.Dir, Free: freeBytes(s.opts.Dir), Need: minFree, Err: err}
	}
	return err
}
