package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
)

// run runs slipway and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := Root()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Every command has a short text and a help that shows, and none of the flags
// that packages of Kubernetes bring along.
func TestHelp(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short text %q", c.CommandPath(), c.Short)
		}
		out, err := run(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if err != nil || !strings.Contains(out, "Usage:") || strings.Contains(out, "--version=raw") {
			t.Errorf("%s --help: %v\n%s", c.CommandPath(), err, out)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Root())
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

// A typing error must not pass for success, at any level.
func TestUnknownCommandsFail(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		if !c.HasSubCommands() {
			return
		}
		for _, args := range [][]string{append(slices.Clone(path), "bogus"), append(append([]string{"help"}, path...), "bogus")} {
			out, err := run(t, args...)
			if err == nil || !strings.Contains(err.Error(), `unknown command "bogus" for "`+c.CommandPath()+`"`) || out != "" {
				t.Errorf("slipway %s: %v, printed %q", strings.Join(args, " "), err, out)
			}
		}
		alone := "Commands:"
		if c.CommandPath() == "slipway openapi" {
			alone = `"openapi": "3.0.0"` // what it prints itself
		}
		if out, err := run(t, path...); err != nil || !strings.Contains(out, alone) {
			t.Errorf("%s alone shows no %q: %v\n%s", c.CommandPath(), alone, err, out)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Root())
	if _, err := run(t, "check", "provder"); err == nil || !strings.Contains(err.Error(), `did you mean "provider"?`) {
		t.Errorf("got %v", err)
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "--logging-format", "xml"},
		{"up", "--timeout", "-1s"},
	} {
		if _, err := run(t, append(args, "--state-dir", t.TempDir())...); err == nil || !strings.HasPrefix(err.Error(), args[1]+" "+args[2]+": want ") {
			t.Errorf("%s: %v", args, err)
		}
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
		"a bundle that left": {nil, "/gone", instance.Change{Bundle: defaultBundle()}},
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

func TestCommandForTheUser(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(envStateDir, "")
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
}

func TestHostRowsJoinBothViews(t *testing.T) {
	rows := hostRows(
		[]localhost.Host{{Name: "host-1", State: localhost.StateOff, IP: netip.MustParseAddr("10.88.0.11")}},
		[]status.Host{{Name: "host-1", Phase: "Running", ClaimedBy: "a/b"}, {Name: "far", Phase: "Available", Addresses: []string{"192.0.2.1"}}},
		false,
	)
	if len(rows) != 2 || rows[0].Phase != "Running" || rows[0].State != string(localhost.StateOff) || rows[1].State != "" || !slices.Equal(rows[1].Addresses, []string{"192.0.2.1"}) {
		t.Errorf("%+v", rows)
	}
	var out bytes.Buffer
	if err := printHosts(&out, rows, true); err != nil || !strings.Contains(out.String(), "192.0.2.1") || !strings.Contains(out.String(), "MESSAGE") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestExitCodeOfAShellIsPassedOn(t *testing.T) {
	if code, silent := ExitCode(&ExitError{Code: 7}); code != 7 || !silent {
		t.Errorf("got %d, %t", code, silent)
	}
	if code, silent := ExitCode(errors.New("x")); code != 1 || silent {
		t.Errorf("got %d, %t", code, silent)
	}
}

func TestWatchWritesWholeFramesAndEndsCleanly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out writes
	command := &cobra.Command{}
	command.SetContext(ctx)
	command.SetOut(&out)
	frames := 0
	err := watchStatus(command, redrawn, func(_ context.Context, w io.Writer) error {
		if frames++; frames == 3 {
			cancel()
			return context.Canceled
		}
		_, err := io.WriteString(w, "one\ntwo\n")
		return err
	})
	if err != nil {
		t.Errorf("an interrupt is not an error: %v", err)
	}
	want := []string{"\x1b[H\x1b[2Jone\x1b[K\ntwo\x1b[K\n\x1b[J", "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J"}
	if !slices.Equal(out, want) {
		t.Errorf("writes %q, want %q", out, want)
	}
	broken := errors.New("broken")
	command.SetContext(t.Context())
	if err := watchStatus(command, appended, func(context.Context, io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// writes keeps each write for itself.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}
