package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
)

const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// LockedError says that another process serves the state directory.
type LockedError struct {
	StateDir string
	// Holder is what the other process wrote about itself; zero when it could
	// not be read.
	Holder Holder
}

// Holder identifies a process that serves a state directory.
type Holder struct {
	process.ID
	Start time.Time `json:"start"`
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder.PID != 0 {
		who = fmt.Sprintf("process %d, since %s", e.Holder.PID, e.Holder.Start.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("the state directory %s is being served by %s: stop it, or choose another directory", e.StateDir, who)
}

// lockFile is inside the state directory.
const lockFile = "lock"

// Lock is an flock, which the kernel drops when the process dies.
type Lock struct{ file *os.File }

// Acquire takes the lock of a state directory for this process. The error is a *LockedError
// when another one has it.
func Acquire(stateDir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(stateDir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := flockPatiently(f); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock the state directory: %w", err)
		}
		locked := &LockedError{StateDir: stateDir}
		// Best effort: the holder may be about to write.
		_ = json.NewDecoder(f).Decode(&locked.Holder)
		return nil, locked
	}
	l := &Lock{file: f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// flockPatiently tries a few times, since Running takes the lock for an instant.
func flockPatiently(f *os.File) error {
	for try := 0; ; try++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == lockTries {
			return err
		}
		time.Sleep(lockPause)
	}
}

// sign writes who holds the lock. The file stays in place over the life of the
// state directory, since removing it would let two processes lock two files.
func (l *Lock) sign() error {
	self, err := process.IDOf(os.Getpid())
	if err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	data, err := json.Marshal(Holder{ID: self, Start: time.Now()})
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	if _, err := l.file.WriteAt(data, 0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }
