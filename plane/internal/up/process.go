package up

import (
	"bytes"
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
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := planelog.Begin(s.Instance.PlaneLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(self, "serve", "--state-dir", s.Instance.Dir)
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
		close(exited)
	}()
	return exited, nil
}

// ended is why the plane ended that this command started, or had systemd start; nil while it
// has not.
func (s *Session) ended(ctx context.Context, exited <-chan struct{}, status statedir.Status) error {
	select {
	case <-exited:
		log, _ := os.ReadFile(s.Instance.PlaneLog())
		return errors.New(s.lastWords(status, log))
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
	log, _ := s.Service.Log(ctx, 20)
	return fmt.Errorf("%s; systemd goes on trying until `slipway down`", s.lastWords(status, log))
}

// lastWords is why the plane ended: its own word for it, or the end of its log.
func (s *Session) lastWords(status statedir.Status, log []byte) string {
	if status.Error != "" {
		return status.Error
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	last := lines[len(lines)-1]
	for _, line := range lines { // systemd has the last line of a journal
		if bytes.HasPrefix(line, []byte("Error: ")) {
			last = line
		}
	}
	return fmt.Sprintf("ended at once: %s (log: %s)", bytes.TrimPrefix(last, []byte("Error: ")), s.log())
}

// log is where the plane's log is: a file, or what shows it.
func (s *Session) log() string {
	if s.Service != nil {
		return "`" + s.Service.LogCommand() + "`"
	}
	return s.Instance.PlaneLog()
}
