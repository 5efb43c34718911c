package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

func testShell(t *testing.T) Shell {
	t.Helper()
	root := hostfs.Root(t.TempDir())
	return Shell{Root: root, System: command.System{Identity: string(root)}}
}

func nothing(int) error { return nil }

func readLog(t *testing.T, s Shell) string {
	t.Helper()
	data, err := os.ReadFile(s.Root.Path(LogFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestShellSharesStateAsCloudInit(t *testing.T) {
	s := testShell(t)
	var began []int
	last, err := s.Run(t.Context(), "runcmd", []string{
		"A=1; cd /tmp", "cat <<EOF\n$A in $PWD\nEOF", "f() {\n  echo called;\n}", "f", "'echo' 'it'\\''s'", `echo a \`, "# nothing",
	}, func(i int) error { began = append(began, i); return nil })
	if err != nil || last != 6 || !slices.Equal(began, []int{0, 1, 2, 3, 4, 5, 6}) {
		t.Fatalf("last %d, began %v: %v", last, began, err)
	}
	if got := readLog(t, s); got != "\n=== runcmd ===\n1 in /tmp\ncalled\nit's\na\n" {
		t.Fatalf("log is %q", got)
	}
	if info, err := os.Stat(s.Root.Path(LogFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the log has mode %v", info.Mode())
	}
}

func TestShellStopsAtTheFirstFailure(t *testing.T) {
	for name, c := range map[string]struct {
		commands   []string
		last, code int
	}{
		"exit code":          {[]string{"true", "(exit 7)", "touch ROOT/after"}, 1, 7},
		"set -e":             {[]string{"set -e", "true; false; true", "touch ROOT/after"}, 1, 1},
		"exit":               {[]string{"exit 3", "touch ROOT/after"}, 0, 3},
		"exit 0 before last": {[]string{"exit 0", "touch ROOT/after"}, 0, 0},
		"syntax":             {[]string{"true", "if then", "touch ROOT/after"}, 1, 2},
		"killed":             {[]string{"kill -9 $$", "touch ROOT/after"}, 0, 137},
		"not found":          {[]string{"no-such-program-here", "touch ROOT/after"}, 0, 127},
	} {
		t.Run(name, func(t *testing.T) {
			s := testShell(t)
			for i := range c.commands {
				c.commands[i] = strings.ReplaceAll(c.commands[i], "ROOT", string(s.Root))
			}
			last, err := s.Run(t.Context(), "runcmd", c.commands, nothing)
			var exit *command.ExitError
			if !errors.As(err, &exit) || exit.Code != c.code || last != c.last {
				t.Fatalf("last %d, error %v; want %d and code %d", last, err, c.last, c.code)
			}
			if _, err := os.Stat(s.Root.Path("/after")); err == nil {
				t.Fatal("a command ran after the one that failed")
			}
		})
	}
}

func TestShellWaitsForTheRecord(t *testing.T) {
	s := testShell(t)
	broken := errors.New("disk full")
	_, err := s.Run(t.Context(), "runcmd", []string{"true", "touch " + s.Root.Path("/second")}, func(i int) error {
		if i == 1 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Fatalf("error is %v", err)
	}
	if _, err := os.Stat(s.Root.Path("/second")); err == nil {
		t.Fatal("the command ran although it could not be recorded")
	}
}

func TestShellCancelled(t *testing.T) {
	s := testShell(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Run(ctx, "runcmd", []string{"sleep infinity & sleep infinity"}, func(int) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestShellLeavesDaemonsAlone(t *testing.T) {
	s := testShell(t)
	pid := s.Root.Path("/pid")
	if _, err := s.Run(poll.Context(t), "runcmd", []string{"sleep infinity & echo $! > " + pid}, nothing); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", strings.TrimSpace(string(data))).Run(); err != nil {
		t.Fatalf("the daemon is gone: %v", err)
	}
}

func TestShellLongScriptsAndNoTrace(t *testing.T) {
	s := testShell(t)
	long := "X=" + strings.Repeat("a", 300<<10)
	list := fmt.Sprintf("cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' > %s", s.Root.Path("/ps"))
	if _, err := s.Run(t.Context(), "runcmd", []string{long, "TOKEN=top-secret-value", list, `test ${#X} -eq 307200`}, nothing); err != nil {
		t.Fatal(err)
	}
	ps, err := os.ReadFile(s.Root.Path("/ps"))
	if err != nil || strings.Contains(string(ps), "top-secret-value") {
		t.Fatalf("the script shows in the list of processes (%v)", err)
	}
	err = filepath.WalkDir(string(s.Root), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "top-secret-value") {
			t.Errorf("the script is on disk in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestShellEndsWithItsAgent kills the agent while a command runs: the shell must
// not go on to the next one.
func TestShellEndsWithItsAgent(t *testing.T) {
	if root := os.Getenv("SHELL_TEST_ROOT"); root != "" {
		s := Shell{Root: hostfs.Root(root), System: command.System{Identity: root}}
		_, _ = s.Run(context.Background(), "runcmd", []string{
			"echo $$ > " + root + "/shell", "while ! test -e " + root + "/go; do sleep 0.02; done", "touch " + root + "/second",
		}, nothing)
		return
	}
	s := testShell(t)
	agent := exec.Command(os.Args[0], "-test.run=TestShellEndsWithItsAgent")
	agent.Env = append(os.Environ(), "SHELL_TEST_ROOT="+string(s.Root))
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	shell := strings.TrimSpace(await(t, s.Root.Path("/shell")))
	_ = agent.Process.Kill()
	_ = agent.Wait()
	if err := os.WriteFile(s.Root.Path("/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the shell is gone", func() bool { return !alive(shell) })
	if _, err := os.Stat(s.Root.Path("/second")); err == nil {
		t.Fatal("the next command ran without an agent")
	}
}

func await(t *testing.T, path string) string {
	t.Helper()
	var data []byte
	poll.True(t, path+" has a line", func() bool {
		var err error
		data, err = os.ReadFile(path)
		return err == nil && strings.HasSuffix(string(data), "\n")
	})
	return string(data)
}

func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
