package up

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/service/fakesystemd"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

const serviceName = "slipway-plane-slipway.service"

// newService is a session of a plane that is a service.
func newService(t *testing.T) (*Session, *fakesystemd.Systemd) {
	t.Helper()
	systemd := fakesystemd.New(t)
	s := newSession(t)
	var err error
	if s.Service, _, err = systemd.Machine.Install(t.Context(), service.Unit{Plane: "slipway", Program: "/usr/local/bin/slipway", StateDir: s.Instance.Dir}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Instance.Path("instance.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Lock, err = s.Instance.Lock(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Lock.Release)
	systemd.Calls()
	return s, systemd
}

func TestSystemdStartsThePlaneOnce(t *testing.T) {
	s, systemd := newService(t)
	if err := os.WriteFile(s.Instance.Path("status.json"), []byte(`{"error":"of the last one"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if exited, err := s.ensureRunning(t.Context()); exited != nil || err != nil {
			t.Fatalf("%v, %v", exited, err)
		}
	}
	if calls := systemd.Calls(); !slices.Equal(calls, []string{"--no-block restart " + serviceName}) {
		t.Errorf("calls %q", calls)
	}
	if _, err := os.Stat(s.Instance.Path("status.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the last plane left is still there: %v", err)
	}
	var locked *instance.LockedError
	if _, err := s.Instance.Lock(); !errors.As(err, &locked) || !locked.LetsPlaneIn {
		t.Errorf("the plane is not let in: %v", err)
	}
	if _, err := os.Stat(s.Instance.PlaneLog()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a log beside the journal: %v", err)
	}
}

func TestAPlaneThatRunsIsLeftToSystemd(t *testing.T) {
	s, systemd := newService(t)
	runs(t, s, statedir.Status{PID: os.Getpid(), Service: true})
	if err := s.stopOutdated(t.Context(), s.Progress.Step("plane")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ensureRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls := systemd.Calls(); len(calls) > 0 {
		t.Errorf("calls %q", calls)
	}
}

func TestWhatSystemdCannotStart(t *testing.T) {
	s, systemd := newService(t)
	if _, err := s.ensureRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	systemd.Write("state", "activating auto-restart\n")
	systemd.Write("journal", "Starting\nError: port 1 is busy\nslipway-plane-slipway.service: Main process exited, code=exited\n")
	if err := s.ended(t.Context(), nil, statedir.Status{}); err != nil {
		t.Errorf("asked at once: %v", err)
	}
	s.asked = time.Now().Add(-serviceInterval)
	if err := s.ended(t.Context(), nil, statedir.Status{}); err == nil || !strings.Contains(err.Error(), "ended at once: port 1 is busy (log: `journalctl --unit "+serviceName+"`)") || !strings.Contains(err.Error(), "goes on trying") {
		t.Errorf("got %v", err)
	}
	s.asked = time.Now().Add(-serviceInterval)
	if err := s.ended(t.Context(), nil, statedir.Status{Error: "no quorum"}); err == nil || !strings.HasPrefix(err.Error(), "no quorum; ") {
		t.Errorf("its own word: %v", err)
	}
	systemd.Write("state", "activating start\n")
	s.asked = time.Now().Add(-serviceInterval)
	if err := s.ended(t.Context(), nil, statedir.Status{}); err != nil {
		t.Errorf("a plane that starts: %v", err)
	}
}

// A plane of systemd that crashes at its start is waited for, since systemd starts it again; its trace may be
// longer than what a person reads.
func TestCrashesUnderSystemdAreSurvived(t *testing.T) {
	s, systemd := newService(t)
	s.hostless = true
	if _, err := s.ensureRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	systemd.Write("state", "activating auto-restart\n")
	systemd.Write("journal", "panic: no map\n"+strings.Repeat("main.main()\n", 100)+"Main process exited, code=exited\n")
	s.asked = time.Now().Add(-serviceInterval)
	var crash *CrashError
	if err := s.ended(t.Context(), nil, statedir.Status{}); !errors.As(err, &crash) || !strings.Contains(err.Error(), "crashed: panic: no map (log: ") {
		t.Errorf("got %v", err)
	}
	if calls := systemd.Calls(); len(calls) != 1 {
		t.Errorf("calls %q", calls)
	}
	s.asked = time.Now().Add(-serviceInterval)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := s.waitForPlane(ctx, s.Progress.Step("plane")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the plane is waited for", err)
	}
}

// A plane that crashes at its start, as by a race of an embedded part, is started again and comes
// up; one that says why it cannot run is not, and one that goes on crashing is given up with the
// crash's own first line.
func TestCrashesAtTheStartAreSurvived(t *testing.T) {
	const panics = "echo 'panic: index of a nil map'; echo; echo 'goroutine 1 [running]:'; echo '	handler.go:42 +0x1'; exit 2"
	for name, tt := range map[string]struct {
		script, want string
		starts       int
	}{
		"three panics":       {`[ "$(cat "$COUNT")" = xxxx ] || { ` + panics + `; }; echo '{"ready":true,"server":"https://here"}' >"$3/status.json"; while [ -e "$COUNT" ]; do sleep 0.1; done`, "", 4},
		"killed":             {`[ "$(cat "$COUNT")" = xx ] || kill -9 $$; echo '{"ready":true}' >"$3/status.json"; while [ -e "$COUNT" ]; do sleep 0.1; done`, "", 2},
		"panics for ever":    {panics, "crashed: panic: index of a nil map (log: ", crashes + 1},
		"failed by klog":     {"echo 'F1128 10:00:00.0 7 main.go:1] no certificate'; exit 255", "crashed: F1128", crashes + 1},
		"says what is wrong": {"echo 'Error: port 1 is busy'; exit 1", "ended at once: port 1 is busy", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			var err error
			if err := os.WriteFile(s.Instance.Path("instance.json"), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			if s.Lock, err = s.Instance.Lock(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Lock.Release)
			count := filepath.Join(t.TempDir(), "count")
			s.program = filepath.Join(t.TempDir(), "plane")
			script := "#!/bin/sh\nCOUNT=" + count + "\nprintf x >>\"$COUNT\"\n" + tt.script + "\n"
			if err := os.WriteFile(s.program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			s.hostless = true
			err = s.waitForPlane(t.Context(), s.Progress.Step("plane"))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if starts, _ := os.ReadFile(count); len(starts) != tt.starts {
				t.Errorf("started %d times, want %d", len(starts), tt.starts)
			}
		})
	}
}
