package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/test/clitest"
)

// run runs slipway and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return clitest.Run(t.Context(), Root(), args...)
}

func TestTree(t *testing.T) {
	clitest.Tree(t, Root, map[string]string{"openapi": `"openapi": "3.0.0"`})
}

func TestStateDirFromTheEnvironment(t *testing.T) {
	t.Setenv(envStateDir, "/nowhere/slipway")
	if _, err := run(t, "status"); !errors.Is(err, instance.ErrNone) || !strings.Contains(err.Error(), "/nowhere/slipway") {
		t.Errorf("got %v", err)
	}
	if _, err := run(t, "status", "--state-dir", "/elsewhere"); err == nil || !strings.Contains(err.Error(), "/elsewhere") {
		t.Errorf("the flag must win: %v", err)
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--logging-format", "xml"},
		{"up", "--timeout", "-1s"},
	} {
		t.Run(args[0], func(t *testing.T) {
			if args[0] == "serve" && os.Geteuid() != 0 {
				rights.Skip(t, "needs root, which is checked first")
			}
			if _, err := run(t, append(args, "--state-dir", t.TempDir())...); err == nil || !strings.HasPrefix(err.Error(), args[1]+" "+args[2]+": want ") {
				t.Errorf("%s: %v", args, err)
			}
		})
	}
}

func TestFeatureGatesAreCheckedBeforeAnythingIsMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	for _, command := range []string{"up", "serve"} {
		if _, err := run(t, command, "--feature-gates", "Bogus=true", "--state-dir", dir); err == nil || !strings.Contains(err.Error(), `no feature gate "Bogus"`) {
			t.Errorf("%s: %v", command, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state directory was made: %v", err)
	}
}

func TestChangeIsWhatWasGiven(t *testing.T) {
	t.Setenv(envBundle, "")
	there := t.TempDir()
	if err := os.WriteFile(filepath.Join(there, "bundle.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args   []string
		bundle string
		want   instance.Change
	}{
		"nothing":            {nil, there, instance.Change{}},
		"the default":        {[]string{"--api-port", "36443"}, there, instance.Change{APIPort: 36443}},
		"a bundle":           {[]string{"--bundle", "/b"}, there, instance.Change{Bundle: "/b"}},
		"a bundle that left": {nil, "/gone", instance.Change{Bundle: cli.NodeBundle()}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &instanceFlags{}
			command := &cobra.Command{}
			f.bind(command)
			if err := command.ParseFlags(tc.args); err != nil {
				t.Fatal(err)
			}
			if got := f.change(&instance.Instance{Config: instance.Config{Bundle: tc.bundle}}); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	f := &instanceFlags{}
	command := &cobra.Command{}
	f.bind(command)
	if err := command.ParseFlags([]string{"--fast=false"}); err != nil {
		t.Fatal(err)
	}
	if got := f.change(&instance.Instance{}).Fast; got == nil || *got {
		t.Errorf("--fast=false is lost: %v", got)
	}
}

// The process that serves is another program than the one that its supervisor started.
func TestStartedByUp(t *testing.T) {
	for _, name := range []string{statedir.LockFDEnv, service.Env, notifySocket} {
		t.Setenv(name, "") // is as it was after the test
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	if by, err := startedBy(); by != (starter{}) || err != nil {
		t.Errorf("started by hand: %+v, %v", by, err)
	}
	if lock, err := supervisorsLock(); lock != nil || err != nil {
		t.Errorf("a lock without a supervisor: %v, %v", lock, err)
	}
	passed, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(statedir.LockFDEnv, strconv.Itoa(passed))
	lock, err := supervisorsLock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if flags, err := unix.FcntlInt(lock.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("programs that the plane starts keep its lock: %v", err)
	}
	if by, err := startedBy(); by != (starter{up: true}) || err != nil {
		t.Errorf("started by up: %+v, %v", by, err)
	}
	if value, ok := os.LookupEnv(statedir.LockFDEnv); ok {
		t.Errorf("the programs of the plane get %s=%s", statedir.LockFDEnv, value)
	}
}

func TestCommandForTheUser(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(envStateDir, "")
	t.Setenv("KUBECONFIG", "")
	before := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = before })
	clientcmd.RecommendedHomeFile = filepath.Join(t.TempDir(), "none")
	t.Setenv("PATH", t.TempDir())
	t.Chdir(filepath.Dir(filepath.Dir(self)))
	g := &global{stateDir: "/x"}
	if got, want := g.command(), filepath.Join(filepath.Base(filepath.Dir(self)), filepath.Base(self))+" --state-dir /x"; got != want {
		t.Errorf("beside the binary: %q, want %q", got, want)
	}
	if err := os.Symlink(self, filepath.Join(os.Getenv("PATH"), "slipway")); err != nil {
		t.Fatal(err)
	}
	g.stateDir = instance.DefaultStateDir
	if got := g.command(); got != "slipway" {
		t.Errorf("in the PATH: %q", got)
	}
	// kubectl has a cluster, which slipway would use.
	t.Setenv("KUBECONFIG", "/elsewhere")
	if got := g.command(); got != "slipway --state-dir "+instance.DefaultStateDir {
		t.Errorf("with KUBECONFIG: %q", got)
	}
}
