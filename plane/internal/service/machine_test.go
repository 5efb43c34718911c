package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/service/fakesystemd"
)

const name = "slipway-plane-slipway.service"

func theUnit() service.Unit {
	return service.Unit{Plane: "slipway", Program: "/usr/local/bin/slipway", StateDir: "/var/lib/slipway"}
}

func install(t *testing.T, s *fakesystemd.Systemd, u service.Unit, wantChanged bool, wantCalls ...string) *service.Service {
	t.Helper()
	installed, changed, err := s.Machine.Install(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	if calls := s.Calls(); changed != wantChanged || !slices.Equal(calls, wantCalls) {
		t.Errorf("changed %t by %q, want %t by %q", changed, calls, wantChanged, wantCalls)
	}
	return installed
}

func TestInstallDoesWhatIsMissing(t *testing.T) {
	s := fakesystemd.New(t)
	install(t, s, theUnit(), true, "daemon-reload", "enable "+name)
	path := filepath.Join(s.Machine.UnitDir, name)
	before, err := os.Stat(path)
	if err != nil || before.Mode().Perm() != 0o644 {
		t.Fatalf("%v, %v", before, err)
	}
	install(t, s, theUnit(), false)
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the unit was written again: %v", err)
	}
	moved := theUnit()
	moved.Program = "/opt/slipway"
	install(t, s, moved, true, "daemon-reload")
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), `ExecStart="/opt/slipway" serve`) {
		t.Errorf("%v\n%s", err, text)
	}
	// A run that was killed after it wrote the file, and one that was before it enabled the unit.
	s.Write("unread", "")
	install(t, s, moved, false, "daemon-reload")
	s.Remove("enabled")
	install(t, s, moved, true, "enable "+name)
	if left, _ := filepath.Glob(filepath.Join(s.Machine.UnitDir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestInstallTouchesNobodyElsesUnit(t *testing.T) {
	s := fakesystemd.New(t)
	path := filepath.Join(s.Machine.UnitDir, name)
	if err := os.WriteFile(path, []byte("[Service]\nExecStart=/mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var foreign *service.ForeignUnitError
	if _, _, err := s.Machine.Install(t.Context(), theUnit()); !errors.As(err, &foreign) || foreign.Path != path {
		t.Errorf("a unit of somebody else: %v", err)
	}
	if found, err := s.Machine.Find("/var/lib/slipway"); found != nil || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "[Service]\nExecStart=/mine\n" {
		t.Errorf("changed to %s", text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Machine.Install(t.Context(), theUnit()); !errors.As(err, &foreign) {
		t.Errorf("a unit that is masked: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	install(t, s, theUnit(), true, "daemon-reload", "enable "+name)
	twin := theUnit()
	twin.StateDir = "/var/lib/twin"
	var other *service.OtherPlaneError
	if _, _, err := s.Machine.Install(t.Context(), twin); !errors.As(err, &other) || !strings.Contains(err.Error(), "slipway uninstall --state-dir /var/lib/slipway") {
		t.Errorf("another plane of the name: %v", err)
	}
}

func TestFindAndRemove(t *testing.T) {
	s := fakesystemd.New(t)
	if found, err := s.Machine.Find("/var/lib/slipway"); found != nil || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	install(t, s, theUnit(), true, "daemon-reload", "enable "+name)
	other := service.Unit{Plane: "other", Program: "/usr/local/bin/slipway", StateDir: "/var/lib/other"}
	install(t, s, other, true, "daemon-reload")
	found, err := s.Machine.Find("/var/lib/slipway")
	if err != nil || found == nil || found.Name != name {
		t.Fatalf("found %v, %v", found, err)
	}
	s.Write("fails-disable", "Access denied\n")
	if err := found.Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "systemctl disable --now "+name) || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("got %v", err)
	}
	if again, err := s.Machine.Find("/var/lib/slipway"); again == nil || err != nil {
		t.Fatalf("a removal that failed cannot be done again: %v", err)
	}
	s.Remove("fails-disable")
	s.Calls()
	if err := os.Mkdir(filepath.Join(s.Machine.UnitDir, name+".d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := found.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls := s.Calls(); !slices.Equal(calls, []string{"disable --now " + name, "daemon-reload"}) {
		t.Errorf("calls %q", calls)
	}
	if again, err := s.Machine.Find("/var/lib/slipway"); again != nil || err != nil {
		t.Errorf("still found: %v, %v", again, err)
	}
	if found.DropIns() == "" {
		t.Error("the drop-ins of the administrator are not told")
	}
	if kept, err := s.Machine.Find("/var/lib/other"); kept == nil || err != nil {
		t.Errorf("the other plane's is gone, too: %v", err)
	}
}

func TestWithoutSystemd(t *testing.T) {
	m := service.Machine{UnitDir: t.TempDir(), Booted: filepath.Join(t.TempDir(), "none")}
	if _, _, err := m.Install(t.Context(), theUnit()); !errors.Is(err, service.ErrNoSystemd) || !strings.Contains(err.Error(), "slipway serve") {
		t.Errorf("got %v", err)
	}
	if found, err := m.Find("/var/lib/slipway"); found != nil || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if left, _ := os.ReadDir(m.UnitDir); len(left) > 0 {
		t.Errorf("written: %v", left)
	}
}

func TestSummary(t *testing.T) {
	s := fakesystemd.New(t)
	installed := install(t, s, theUnit(), true, "daemon-reload", "enable "+name)
	s.Write("state", "active running\n")
	if got := installed.Summary(t.Context()); got != name+": active (running), starts with this machine" {
		t.Errorf("got %q", got)
	}
	s.Write("restarts", "3\n")
	if got := installed.Summary(t.Context()); !strings.Contains(got, "starts with this machine; restarts after it ended by itself: 3 (`journalctl --unit "+name+"`)") {
		t.Errorf("got %q", got)
	}
	s.Remove("enabled")
	if got := installed.Summary(t.Context()); !strings.Contains(got, "does not start with this machine until `slipway install`") {
		t.Errorf("got %q", got)
	}
	s.Write("fails-show", "Failed to connect to bus\n")
	if got := installed.Summary(t.Context()); !strings.Contains(got, "Failed to connect to bus") {
		t.Errorf("got %q", got)
	}
}

func TestState(t *testing.T) {
	s := fakesystemd.New(t)
	installed := install(t, s, theUnit(), true, "daemon-reload", "enable "+name)
	for text, want := range map[string]struct{ ended bool }{
		"active running\n":          {false},
		"activating start\n":        {false},
		"activating auto-restart\n": {true},
		"failed failed\n":           {true},
		"inactive dead\n":           {false},
	} {
		s.Write("state", text)
		if state, err := installed.State(t.Context()); err != nil || state.Ended() != want.ended {
			t.Errorf("%q: %+v, %v", text, state, err)
		}
	}
}
