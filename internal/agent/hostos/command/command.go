package command

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
)

// MarkVariable is in the environment of every program the agent starts. Its
// value is the identity of the agent: a machine may hold several, each in a
// sandbox, and none may touch the programs of another.
const MarkVariable = "SLIPWAY_AGENT_RUN"

// maxOutput bounds what Run returns, in bytes; the rest goes to the log only.
const maxOutput = 1 << 20

// killDelay is how long Wait goes on reading from a program that was killed.
const killDelay = 2 * time.Second

// ExitError says that a program ended with a code other than zero. It does not
// hold what the program wrote, which may be secret.
type ExitError struct {
	// Program is the name without its arguments.
	Program string
	// Code is the exit code, or 128 + the signal that ended the program.
	Code int
}

// Error implements error.
func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended with exit code %d", e.Program, e.Code)
}

// Runner runs programs of the host.
type Runner interface {
	// Run waits for the program and returns what it wrote to standard output.
	// The error is an *ExitError when the program ran and failed, and wraps
	// exec.ErrNotFound when PATH does not have it.
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
	// RunInput is Run with data on standard input.
	RunInput(ctx context.Context, input []byte, name string, args ...string) ([]byte, error)
	// Has reports whether PATH has the program.
	Has(name string) bool
}

// System is the Runner of the host the agent runs on.
type System struct {
	// Identity tells the programs of this agent from those of any other.
	Identity string
	// Log receives standard error of the programs. Nil drops it.
	Log io.Writer
}

// Environment of the programs: what a root login has, and the mark.
func (s System) Environment() []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return []string{"PATH=" + path, "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", s.mark()}
}

func (s System) mark() string { return MarkVariable + "=" + s.Identity }

// Command makes a program leader of its own session, which dies as a whole when
// the context ends.
func (s System) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = s.Environment()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = killDelay
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	return cmd
}

// Has implements Runner.
func (System) Has(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// Run implements Runner.
func (s System) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	return s.RunInput(ctx, nil, name, args...)
}

// RunInput implements Runner.
func (s System) RunInput(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	cmd := s.Command(ctx, name, args...)
	out := &capped{}
	cmd.Stdout, cmd.Stderr = out, s.Log
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	err := Exit(name, cmd.Run())
	if ctx.Err() != nil {
		err = fmt.Errorf("%s was stopped: %w", name, context.Cause(ctx))
	}
	return out.Bytes(), err
}

// Exit turns the error of exec.Cmd into an *ExitError where there is a code. A
// daemon that the program left with its output open is not an error.
func Exit(name string, err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return err
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return &ExitError{Program: name, Code: 128 + int(status.Signal())}
	}
	return &ExitError{Program: name, Code: exit.ExitCode()}
}

type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if left := maxOutput - c.Len(); left > 0 {
		c.Buffer.Write(p[:min(left, len(p))])
	}
	return len(p), nil
}
