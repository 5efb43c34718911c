package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// nobody is a user without any rights.
const nobody = 65534

// invocation is one run of slipway whose output and end are looked at.
type invocation struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr bytes.Buffer
}

// command prepares a run of slipway on p; `up` gets the flags of the plane.
func (p *plane) command(args ...string) *invocation {
	if args[0] == "up" {
		args = append(append([]string{"up"}, p.Flags()...), args[1:]...)
	}
	i := &invocation{t: p.t, Cmd: exec.CommandContext(poll.Context(p.t), filepath.Join(p.bin, "slipway"), append([]string{"--state-dir", p.StateDir}, args...)...)}
	i.Env = p.Environ()
	i.Stdout, i.Stderr = &i.stdout, &i.stderr
	return i
}

// asNobody makes the run one without rights. The binary is copied to where
// everybody may read it.
func (i *invocation) asNobody() *invocation {
	i.t.Helper()
	dir, err := os.MkdirTemp("", "slipway")
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "slipway")
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile(i.Path, path)); err != nil {
		i.t.Fatal(err)
	}
	i.Path, i.Dir = path, "/"
	i.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return i
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// start runs it in the background.
func (i *invocation) start() *invocation {
	i.t.Helper()
	if err := i.Start(); err != nil {
		i.t.Fatal(err)
	}
	return i
}

// interrupt sends a signal after a while and waits for the end.
func (i *invocation) interrupt(after time.Duration, signal os.Signal) error {
	timer := time.AfterFunc(after, func() { _ = i.Process.Signal(signal) })
	defer timer.Stop()
	return i.Wait()
}

// refused expects it to fail with code 1 and one message that contains every want.
func (i *invocation) refused(want ...string) {
	i.t.Helper()
	if i.Process == nil {
		i.start()
	}
	i.assertRefused(i.Wait(), want...)
}

func (i *invocation) assertRefused(err error, want ...string) {
	i.t.Helper()
	what := fmt.Sprintf("slipway %s", strings.Join(i.Args[3:], " "))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		i.t.Errorf("%s: %v, want exit code 1\n%s%s", what, err, i.stdout.String(), i.stderr.String())
		return
	}
	errs := i.stderr.String()
	_, message, _ := strings.Cut("\n"+errs, "\nError: ")
	if n := strings.Count("\n"+errs, "\nError: "); n != 1 {
		i.t.Errorf("%s: %d errors, want one:\n%s", what, n, errs)
	}
	for _, w := range want {
		if !strings.Contains(message, w) {
			i.t.Errorf("%s: the message does not contain %q:\n%s", what, w, errs)
		}
	}
	// Said once: the live progress leaves it to the error.
	if first, _, _ := strings.Cut(message, "\n"); len(first) > 20 && strings.Count(errs, first[len(first)-20:]) != 1 {
		i.t.Errorf("%s: said more than once:\n%s", what, errs)
	}
	for _, bad := range []string{"panic:", "goroutine "} {
		if strings.Contains(errs, bad) {
			i.t.Errorf("%s: %s", what, errs)
		}
	}
}

// refused expects a run of slipway to be refused.
func (p *plane) refused(args []string, want ...string) {
	p.t.Helper()
	p.command(args...).refused(want...)
}
