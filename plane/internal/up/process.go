package up

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// serviceInterval is how often systemd is asked whether the plane has ended. The pause of the
// unit before it is started again is longer.
const serviceInterval = time.Second

// servicePause is longer than systemd waits before it starts a plane again.
const servicePause = 6 * time.Second

// stopOutdated ends a plane that listens for other machines elsewhere than was chosen, that
// systemd is to run from now on, or that nobody starts again when it crashes, so that it is
// started anew; and the supervisor of one that waits to be started again. Its hosts and their
// clusters go on meanwhile.
func (s *Session) stopOutdated(ctx context.Context, step *progress.Step) error {
	holder, running, err := statedir.Running(s.Instance.Dir)
	if err != nil || !running {
		return err
	}
	record := statedir.Current(s.Instance.Dir)
	switch {
	case holder.Supervisor != nil && holder.PID == 0:
		step.Waitf("starting it now, before its supervisor does")
	case record == nil:
		return nil
	case outdated(record, s.Instance.Config):
		step.Waitf("stopping it, to listen elsewhere")
	case s.Service != nil && !record.Service && !record.Foreground:
		step.Waitf("stopping it, for systemd to start it")
	case s.Service == nil && !record.Service && !record.Foreground && holder.Supervisor == nil:
		step.Waitf("stopping it, for its supervisor is gone")
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
	s.crashes = 0
	if err := errors.Join(statedir.RemoveStatus(s.Instance.Dir), statedir.RemoveCrashes(s.Instance.Dir)); err != nil {
		return nil, err
	}
	if s.Service == nil {
		return s.spawn()
	}
	s.restarted, s.asked = true, time.Now()
	return nil, errors.Join(s.Lock.LetPlaneIn(), s.Service.Restart(ctx))
}

// spawn starts the plane under a supervisor, in a session of its own, so that Ctrl-C here does not
// reach it, and returns what is closed when the supervisor ends. See internal/supervisor.
func (s *Session) spawn() (<-chan struct{}, error) {
	program := s.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	// Should this command die now, the next one finds that the plane runs.
	lock, err := statedir.Take(s.Instance.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release() }() // the supervisor has it
	log, err := statedir.BeginLog(s.Instance.PlaneLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(s.Hosts.Sandbox, "supervise", s.Instance.Dir, program, "serve", "--state-dir", s.Instance.Dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.ExtraFiles = []*os.File{lock.File()}
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

// crashes is how often a plane may crash before it is ready while `slipway up` waits for it. Whoever started
// it, a supervisor or systemd, goes on starting it.
const crashes = 3

// CrashError says that a plane crashed, which may not happen again.
type CrashError struct{ What string }

func (e *CrashError) Error() string { return e.What }

// ended is why the plane ended that this command started, or had systemd start; nil while it
// has not. The error is a *CrashError when it crashed, one for each crash.
func (s *Session) ended(ctx context.Context, exited <-chan struct{}, status statedir.Status) error {
	seen, err := statedir.ReadCrashes(s.Instance.Dir)
	if err != nil {
		return err
	}
	if seen.Count > s.crashes {
		s.crashes = seen.Count
		return &CrashError{fmt.Sprintf("crashed: %s (log: %s); it is started again until `slipway down`", seen.What, s.log())}
	}
	select {
	case <-exited:
		if s.exit.ExitCode() != 1 {
			return fmt.Errorf("its supervisor, slipway-sandbox, ended: %s (log: %s)", s.exit, s.log())
		}
		log, err := os.Open(s.Instance.PlaneLog())
		if err != nil {
			return err
		}
		defer log.Close()
		words, _ := s.lastWords(status, log)
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
	words, crashed := s.lastWords(status, bytes.NewReader(log))
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
func (s *Session) lastWords(status statedir.Status, log io.Reader) (string, bool) {
	if status.Error != "" {
		return status.Error, false
	}
	line, crashed, err := statedir.LastWords(log)
	if err != nil {
		line = err.Error()
	}
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
