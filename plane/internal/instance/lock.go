package instance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const lockFile = "command.lock"

const (
	// deathPatience is how long the kernel may need to end a command that was killed.
	deathPatience = 10 * time.Second
	lockPause     = 20 * time.Millisecond
)

// LockedError means that another command works on the same state directory.
type LockedError struct {
	// PID of the other command, 0 when it is not known.
	PID int
	// LetsPlaneIn says that the other command has the plane started by a service manager,
	// which needs no lock of its own then.
	LetsPlaneIn bool
}

func (e *LockedError) Error() string {
	who := ""
	if e.PID != 0 {
		who = fmt.Sprintf(" (process %d)", e.PID)
	}
	return fmt.Sprintf("another slipway command%s works on this plane: wait for it to end, or interrupt it", who)
}

// Lock is held by the one command that changes the plane. The kernel lets go of
// it when the last process that has its file ends.
type Lock struct{ file *os.File }

// Lock keeps other commands out until Release; *LockedError when one is at work.
func (i *Instance) Lock() (*Lock, error) {
	f, err := os.OpenFile(i.Path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := i.lock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return &Lock{f}, nil
}

func (i *Instance) lock(f *os.File) error {
	for deadline := time.Now().Add(deathPatience); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		// A dead command's lock goes with its memory, which takes the kernel a moment.
		if pid, lets := holder(f); pid == 0 || alive(pid) || time.Now().After(deadline) {
			return &LockedError{PID: pid, LetsPlaneIn: lets}
		}
	}
	// `down --purge` may have removed the directory just before.
	if _, err := os.Stat(i.Path(ConfigFile)); err != nil {
		return fmt.Errorf("%s was removed by another command; run this one again", i.Dir)
	}
	// Only for the message to others, so a full disk must not stop `slipway down`.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return nil
}

// letsPlaneIn follows the PID in the file of a lock whose holder has the plane started.
const letsPlaneIn = "lets-plane-in"

func holder(f *os.File) (pid int, lets bool) {
	data, _ := io.ReadAll(io.NewSectionReader(f, 0, 64))
	words := strings.Fields(string(data))
	if len(words) > 0 {
		pid, _ = strconv.Atoi(words[0])
	}
	return pid, slices.Contains(words, letsPlaneIn)
}

func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// Inherited is the lock that another process passed on as a file; with none, one that is
// not held.
func Inherited(file *os.File) *Lock { return &Lock{file} }

// File is what to pass on: the lock is held until every copy of it is closed. Nil for one
// that is not held.
func (l *Lock) File() *os.File { return l.file }

// LetPlaneIn tells a plane that a service manager starts to go on without the lock: what was
// chosen for it is written down, and does not change any more until Release.
func (l *Lock) LetPlaneIn() error {
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+" "+letsPlaneIn), 0)
	return err
}

// Release lets others work on the plane.
func (l *Lock) Release() { _ = l.file.Close() }
