package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/planelog"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// LockFDEnv is the environment variable in which `slipway serve` finds the file
// descriptor of the command's lock, to close it once its own lock is taken. A plane without
// it was not started by `slipway up`.
const LockFDEnv = "SLIPWAY_COMMAND_LOCK_FD"

// serviceInterval is how often systemd is asked whether the plane has ended. The pause of the
// unit before it is started again is longer.
const serviceInterval = time.Second

// servicePause is longer than systemd waits before it starts a plane again.
const servicePause = 6 * time.Second

// stopOutdated ends a plane that listens for other machines elsewhere than was chosen, or
// that systemd is to run from now on, so that it is started anew. Its hosts and their
// clusters go on meanwhile.
func (s *Session) stopOutdated(ctx context.Context, step *progress.Step) error {
	record := statedir.Current(s.Instance.Dir)
	if record == nil {
		return nil
	}
	switch {
	case outdated(record, s.Instance.Config):
		step.Waitf("stopping it, to listen elsewhere")
	case s.Service != nil && !record.Service && !record.Foreground:
		step.Waitf("stopping it, for systemd to start it")
	default:
		return nil
	}
	if s.Service != nil {
		if err := s.Service.Stop(ctx); err != nil {
			return err
		}
	}
	if err := statedir.Stop(ctx, s.Instance.Dir); err != nil {
		return err
	}
	// The plane gives its lock back first, and its sockets with its process.
	return poll(ctx, pollInterval, func() (bool, error) {
		err := s.checkPort(ctx)
		if errors.Is(err, unix.EADDRINUSE) {
			step.Waitf("%v", err)
			return false, nil
		}
		return err == nil, err
	})
}

// ensureRunning starts the plane unless one runs, or has systemd start it, and returns what
// is closed when that one ends; nil when it is not ours.
func (s *Session) ensureRunning(ctx context.Context) (exited <-chan struct{}, _ error) {
	_, running, err := statedir.Running(s.Instance.Dir)
	if err != nil || running || s.restarted {
		return nil, err
	}
	// What the last plane left must not be taken for this one's.
	if err := os.Remove(s.Instance.Path("status.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if s.Service == nil {
		return s.spawn()
	}
	s.restarted, s.asked = true, time.Now()
	return nil, errors.Join(s.Lock.LetPlaneIn(), s.Service.Restart(ctx))
}

// spawn starts the plane in a session of its own, so that Ctrl-C here does not
// reach it, and returns what is closed when it ends.
func (s *Session) spawn() (<-chan struct{}, error) {
	program := s.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	log, err := planelog.Begin(s.Instance.PlaneLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, "serve", "--state-dir", s.Instance.Dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	// Should this command die now, the next one waits until it can see the plane.
	cmd.ExtraFiles = []*os.File{s.Lock.File()}
	cmd.Env = append(os.Environ(), LockFDEnv+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the plane: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		s.exit = cmd.ProcessState
		close(exited)
	}()
	return exited, nil
}

// crashes is how often a plane may crash before it is ready, and is started again each time: an
// embedded part of Kubernetes ends the whole process where it would end a process of its own, and a
// kubelet or systemd would start that again.
const crashes = 5

// crashed reports whether the plane that this command started has crashed, which does not say that
// it cannot run: a panic of a part, a failed check of one (klog's Fatal), or a signal. A plane that
// tells what is wrong with its start ends with 1.
func (s *Session) crashed(exited <-chan struct{}) bool {
	select {
	case <-exited:
		return s.exit != nil && s.exit.ExitCode() != 1 && !s.exit.Success()
	default:
		return false
	}
}

// CrashError says that a plane crashed, which may not happen again.
type CrashError struct{ What string }

func (e *CrashError) Error() string { return e.What }

// ended is why the plane ended that this command started, or had systemd start; nil while it
// has not. The error is a *CrashError when it crashed.
func (s *Session) ended(ctx context.Context, exited <-chan struct{}, status statedir.Status) error {
	select {
	case <-exited:
		log, _ := os.ReadFile(s.Instance.PlaneLog())
		words, _ := s.lastWords(status, log)
		if s.crashed(exited) {
			return &CrashError{words}
		}
		return errors.New(words)
	default:
	}
	if !s.restarted || time.Since(s.asked) < serviceInterval {
		return nil
	}
	s.asked = time.Now()
	state, err := s.Service.State(ctx)
	if err != nil || !state.Ended() {
		return err
	}
	log, _ := s.Service.Log(ctx, journalLines)
	words, crashed := s.lastWords(status, log)
	words += "; systemd goes on trying until `slipway down`"
	if crashed {
		return &CrashError{words}
	}
	return errors.New(words)
}

// journalLines is how much of a journal is read: the runtime says a line for each call of each goroutine.
const journalLines = 20_000

// lastWords is why the plane ended, and whether it crashed: its own word for it, or the line of its log that
// tells.
func (s *Session) lastWords(status statedir.Status, log []byte) (string, bool) {
	if status.Error != "" {
		return status.Error, false
	}
	line, crashed := planelog.LastWords(log)
	what := "ended at once"
	if crashed {
		what = "crashed"
	}
	return fmt.Sprintf("%s: %s (log: %s)", what, line, s.log()), crashed
}

// log is where the plane's log is: a file, or what shows it.
func (s *Session) log() string {
	if s.Service != nil {
		return "`" + s.Service.LogCommand() + "`"
	}
	return s.Instance.PlaneLog()
}
