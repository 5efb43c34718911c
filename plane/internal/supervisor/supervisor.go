package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// LockFD is the file descriptor at which a supervisor is given the lock of the state directory, and gives it on.
const LockFD = 3

// termInterval is the pause between two signals to a plane that is to end: one that arrives while the process
// enters the plane's network is lost.
const termInterval = time.Second

// Run starts the plane by a command, and again when it ends, until the process gets SIGTERM or the plane ends as it
// was supposed to. It returns the code with which the process is to end: 1 if the plane said at its first start why
// it cannot run.
func Run(stateDir string, command []string) (code int, err error) {
	unix.CloseOnExec(LockFD)
	s := &supervisor{dir: stateDir, command: command, lock: statedir.Inherited(os.NewFile(LockFD, "lock")), stop: make(chan os.Signal, 1)}
	signal.Notify(s.stop, unix.SIGTERM, unix.SIGINT)
	if err := s.lock.SignAsSupervisor(); err != nil {
		return 1, err
	}
	return s.run()
}

type supervisor struct {
	dir     string
	command []string
	lock    *statedir.Lock
	stop    chan os.Signal
	crashes statedir.Crashes
	backoff backoff
}

func (s *supervisor) run() (code int, err error) {
	for {
		began := time.Now()
		end := s.once()
		if end.wanted {
			return 0, statedir.RemoveCrashes(s.dir)
		}
		// `slipway up` shows what is wrong with a first start.
		if end.code == 1 && s.crashes.Count == 0 && !s.wasReady() {
			return 1, nil
		}
		if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
			return 1, err // somebody removed the plane by hand
		}
		s.crashes.Count++
		s.crashes.Last, s.crashes.What = time.Now(), end.what
		pause := s.backoff.next(time.Since(began))
		s.crashes.Next = s.crashes.Last.Add(pause)
		// A full disk, for one, must not keep the plane from its next start. The lock would name a process that
		// has ended, and the status one that has another PID.
		_ = errors.Join(statedir.WriteCrashes(s.dir, s.crashes), s.lock.SignAsSupervisor(), statedir.RemoveStatus(s.dir))
		select {
		case <-s.stop:
			return 0, statedir.RemoveCrashes(s.dir)
		case <-time.After(pause):
		}
	}
}

// wasReady reports whether the plane that ended has been ready.
func (s *supervisor) wasReady() bool {
	status, err := statedir.ReadStatus(s.dir)
	return err == nil && status.ReadyAfter > 0
}

// end is how a plane ended.
type end struct {
	// wanted says that it did not end by itself.
	wanted bool
	// code is its exit status; -1 for a signal, or if it was not started.
	code int
	// what tells of the end: the first line of a panic, say.
	what string
}

// once runs the plane once. Its log goes where the supervisor's does.
func (s *supervisor) once() end {
	logged := size(s.log())
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{s.lock.File()} // the first of them is LockFD
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", statedir.LockFDEnv, LockFD))
	if err := cmd.Start(); err != nil {
		return end{code: -1, what: err.Error()}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	wanted := false
	var again <-chan time.Time
	for {
		select {
		case <-ended:
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			wanted = wanted || cmd.ProcessState.Success() || status.Signaled() && (status.Signal() == unix.SIGTERM || status.Signal() == unix.SIGINT)
			return end{wanted: wanted, code: cmd.ProcessState.ExitCode(), what: s.lastWords(status, logged)}
		case <-s.stop:
		case <-again:
		}
		wanted = true
		_ = cmd.Process.Signal(unix.SIGTERM)
		again = time.After(termInterval)
	}
}

func (s *supervisor) log() string { return filepath.Join(s.dir, statedir.LogName) }

// lastWords tells how a plane ended whose log began at an offset.
func (s *supervisor) lastWords(status syscall.WaitStatus, logged int64) string {
	if status.Signaled() {
		return "killed by " + unix.SignalName(status.Signal())
	}
	what := fmt.Sprintf("exit status %d", status.ExitStatus())
	line, crashed, err := s.lastLine(logged)
	switch {
	case err != nil || line == "":
		return what
	case crashed:
		return line
	}
	return what + ": " + line
}

func (s *supervisor) lastLine(logged int64) (line string, crashed bool, err error) {
	log, err := os.Open(s.log())
	if err != nil {
		return "", false, err
	}
	defer log.Close()
	if size(s.log()) < logged { // it was rotated meanwhile
		logged = 0
	}
	if _, err := log.Seek(logged, io.SeekStart); err != nil {
		return "", false, err
	}
	return statedir.LastWords(log)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
