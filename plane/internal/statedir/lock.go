package statedir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Holder identifies the processes that serve a state directory.
type Holder struct {
	// ID of the plane's process; zero until it has written its name.
	process.ID
	// Start of that process.
	Start time.Time `json:"start"`
	// Supervisor starts the plane again when it crashes; nil for a plane that `slipway up` did not start.
	Supervisor *process.ID `json:"supervisor,omitempty"`
	// Unsupervised is true for a plane that runs and whose supervisor has ended, as Running finds.
	Unsupervised bool `json:"-"`
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
	l, err := Take(stateDir)
	if err != nil {
		return nil, err
	}
	if err := l.SignAsPlane(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// Take locks a state directory, and File passes the lock on to a supervisor. The error is that of Acquire.
func Take(stateDir string) (*Lock, error) {
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
		locked.Holder, _ = readHolder(f)
		return nil, locked
	}
	l := &Lock{file: f}
	// The one before holds it no longer.
	if err := l.sign(Holder{}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// LockFDEnv is the environment variable in which a plane finds the file descriptor of the lock that its
// supervisor passes on. A plane without it was not started by `slipway up`.
const LockFDEnv = "SLIPWAY_STATE_LOCK_FD"

// Inherited is the lock that another process passed on as a file.
func Inherited(file *os.File) *Lock { return &Lock{file} }

// File is what to pass on: the lock is held until every copy of it is closed.
func (l *Lock) File() *os.File { return l.file }

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

// SignAsPlane writes that this process is the plane. The supervisor that was written down stays.
func (l *Lock) SignAsPlane() error {
	holder, err := readHolder(l.file)
	if err != nil {
		return err
	}
	if holder.ID, err = process.IDOf(os.Getpid()); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	holder.Start = time.Now()
	return l.sign(holder)
}

// SignAsSupervisor writes that this process starts the plane, which does not run.
func (l *Lock) SignAsSupervisor() error {
	self, err := process.IDOf(os.Getpid())
	if err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return l.sign(Holder{Supervisor: &self})
}

// lockSize is that of the file: whatever is written replaces all that was there, in one call.
const lockSize = 512

// sign writes who holds the lock. The file stays in place over the life of the
// state directory, since removing it would let two processes lock two files.
func (l *Lock) sign(holder Holder) error {
	data, err := json.Marshal(holder)
	if err != nil {
		return err
	}
	if _, err := l.file.WriteAt(append(data, bytes.Repeat([]byte(" "), lockSize-len(data))...), 0); err != nil {
		return fmt.Errorf("write the lock: %w", err)
	}
	return nil
}

func readHolder(f *os.File) (Holder, error) {
	var holder Holder
	if err := json.NewDecoder(io.NewSectionReader(f, 0, lockSize)).Decode(&holder); err != nil {
		return Holder{}, fmt.Errorf("read the lock: %w", err)
	}
	return holder, nil
}

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }
