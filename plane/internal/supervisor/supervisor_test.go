package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/supervisor/fakeplane"
)

func TestMain(m *testing.M) {
	fakeplane.Act()
	m.Run()
}

// start starts a supervisor as `slipway up` does, of a plane whose starts do what the lines say.
func start(t *testing.T, dir string, lines ...string) *exec.Cmd {
	t.Helper()
	return startProgram(t, dir, self(t), lines...)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func startProgram(t *testing.T, dir, program string, lines ...string) *exec.Cmd {
	t.Helper()
	fakeplane.Let(t, dir, lines...)
	lock, err := statedir.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	log, err := statedir.BeginLog(filepath.Join(dir, statedir.LogName))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(t), "supervise", dir, program, "serve", "--state-dir", dir)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{lock.File()}
	if err := errors.Join(cmd.Start(), lock.Release(), log.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, dir, cmd) })
	return cmd
}

// end stops a plane and checks that nothing of it runs.
func end(t *testing.T, dir string, supervisor *exec.Cmd) {
	t.Helper()
	if err := statedir.Stop(context.Background(), dir); err != nil {
		t.Error(err)
	}
	_ = supervisor.Wait() // again, maybe
	for _, pid := range fakeplane.Starts(t, dir) {
		if id, err := process.IDOf(pid); err == nil && id.Runs() {
			t.Errorf("process %d of the plane runs on", pid)
		}
	}
	if said, err := os.ReadFile(filepath.Join(dir, statedir.LogName)); t.Failed() && err == nil {
		t.Logf("%s", said)
	}
}

// serving waits for the nth start of the plane, and for it to be ready.
func serving(t *testing.T, dir string, n int) (pid int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("start %d of the plane", n), func() error {
		all, status := fakeplane.Starts(t, dir), statedir.Current(dir)
		if len(all) < n || status == nil || !status.Ready || status.PID != all[n-1] {
			return fmt.Errorf("started %d times: %+v", len(all), status)
		}
		pid = status.PID
		return nil
	})
	return pid
}

func TestPlaneIsStartedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ first, what string }{
		"a panic at the start":      {"panic", "panic: index of a nil map"},
		"a panic later":             {"ready panic", "panic: index of a nil map"},
		"klog's Fatal":              {"ready fatal", "F1128 10:00:00.0 7 main.go:1] no certificate"},
		"a part that ended":         {"ready error", "exit status 1: port 1 is busy"},
		"the kernel, out of memory": {"kill", "killed by SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			supervisor := start(t, dir, c.first, "ready wait")
			serving(t, dir, 2)
			crashes, err := statedir.ReadCrashes(dir)
			if err != nil || crashes.Count != 1 || crashes.What != c.what || crashes.Last.IsZero() {
				t.Errorf("%+v, %v; want %q", crashes, err, c.what)
			}
			if err := statedir.Stop(t.Context(), dir); err != nil {
				t.Error(err)
			}
			if err := supervisor.Wait(); err != nil {
				t.Errorf("stopped: %v", err)
			}
			if crashes, err := statedir.ReadCrashes(dir); err != nil || crashes.Count > 0 {
				t.Errorf("after it was stopped: %+v, %v", crashes, err)
			}
			if n := len(fakeplane.Starts(t, dir)); n != 2 {
				t.Errorf("started %d times", n)
			}
		})
	}
}

// Each crash has a cause of its own: one without output is not explained by the panic before it.
func TestEachCrashHasItsCause(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dir, "panic", "ready exit", "ready wait")
	serving(t, dir, 3)
	if crashes, err := statedir.ReadCrashes(dir); err != nil || crashes.Count != 2 || crashes.What != "exit status 3" {
		t.Errorf("%+v, %v", crashes, err)
	}
}

// What is wrong with a first start is for the user to correct; the same error of a plane that has been ready, or that
// was started again, is not.
func TestErrorAtTheFirstStartEndsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	supervisor := start(t, dir, "error", "ready wait")
	if err := supervisor.Wait(); supervisor.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v", err)
	}
	if n := len(fakeplane.Starts(t, dir)); n != 1 {
		t.Errorf("started %d times", n)
	}
	t.Run("later", func(t *testing.T) {
		dir := t.TempDir()
		start(t, dir, "panic", "error", "ready wait")
		serving(t, dir, 3)
	})
}

// A plane that somebody ends by SIGTERM, as the machine does when it goes down, is not started again.
func TestPlaneThatWasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	supervisor := start(t, dir, "ready wait")
	if err := unix.Kill(serving(t, dir, 1), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Wait(); err != nil {
		t.Error(err)
	}
	if n := len(fakeplane.Starts(t, dir)); n != 1 {
		t.Errorf("started %d times", n)
	}
}

// Without its state directory there is no plane to start.
func TestRemovedStateDirectoryEndsTheSupervisor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "plane")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	supervisor := start(t, dir, "ready wait")
	pid := serving(t, dir, 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _ = supervisor.Wait(); supervisor.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v", supervisor.ProcessState)
	}
}

// The plane goes on without its supervisor, known as one without, and can be stopped.
func TestKilledSupervisorLeavesThePlane(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	supervisor := start(t, dir, "ready wait")
	pid := serving(t, dir, 1)
	if holder, running, err := statedir.Running(dir); err != nil || !running || holder.Supervisor == nil || holder.Supervisor.PID != supervisor.Process.Pid || holder.PID != pid {
		t.Errorf("%+v, %v, %v", holder, running, err)
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	if holder, running, err := statedir.Running(dir); err != nil || !running || holder.Supervisor != nil || holder.PID != pid {
		t.Errorf("without its supervisor: %+v, %v, %v", holder, running, err)
	}
	if err := statedir.Stop(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, running, err := statedir.Running(dir); err != nil || running {
		t.Errorf("stopped: %v, %v", running, err)
	}
}

// A plane that is stopped in the very moment in which it crashes, while it waits to be started again, or while it
// starts, is not there afterwards.
func TestStopWinsOverACrash(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			supervisor := start(t, dir, "ready wait")
			pid := serving(t, dir, 1)
			killed := make(chan error, 1)
			go func() { killed <- unix.Kill(pid, unix.SIGKILL) }()
			if n%2 == 1 {
				poll.Until(t, "the crash is recorded", func() error {
					if crashes, err := statedir.ReadCrashes(dir); err != nil || crashes.Count == 0 {
						return fmt.Errorf("%+v, %w", crashes, err)
					}
					return nil
				})
			}
			if n%4 == 3 {
				poll.Until(t, "it is started again", func() error {
					if all := fakeplane.Starts(t, dir); len(all) < 2 {
						return fmt.Errorf("%v", all)
					}
					return nil
				})
			}
			if err := statedir.Stop(t.Context(), dir); err != nil {
				t.Error(err)
			}
			// The stop may end the plane first.
			if err := <-killed; err != nil && !errors.Is(err, unix.ESRCH) {
				t.Error(err)
			}
			if _, running, err := statedir.Running(dir); err != nil || running {
				t.Errorf("it runs: %v, %v", running, err)
			}
			if err := supervisor.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An upgrade replaces the program; the next start is of the new one.
func TestNewProgramIsStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "slipway")
	if err := os.Symlink(self(t), program); err != nil {
		t.Fatal(err)
	}
	startProgram(t, dir, program, "ready wait")
	pid := serving(t, dir, 1)
	script := fmt.Sprintf("#!/bin/sh\ntouch %s/new\nexec %s \"$@\"\n", dir, self(t))
	if err := os.WriteFile(program+".new", []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	serving(t, dir, 2)
	if _, err := os.Stat(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
}
