package up

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	eventually "github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/service/fakesystemd"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/supervisor/fakeplane"
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

// newSupervised is a session that starts a plane whose starts do what the lines say.
func newSupervised(t *testing.T, lines ...string) *Session {
	t.Helper()
	s := newSession(t)
	s.hostless = true
	var err error
	if s.program, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	s.Hosts = &localhost.Manager{Sandbox: s.program}
	fakeplane.Let(t, s.Instance.Dir, lines...)
	t.Cleanup(func() {
		if err := statedir.Stop(context.Background(), s.Instance.Dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A plane that crashes at its start, as by a race of an embedded part, is started again and comes
// up; one that says why it cannot run is not. Of one that goes on crashing the command tells with the
// crash's own first line, and its supervisor goes on.
func TestCrashesAtTheStartAreSurvived(t *testing.T) {
	for name, tt := range map[string]struct {
		script []string
		want   string
		starts int
	}{
		"two panics":         {[]string{"panic", "panic", "ready wait"}, "", 3},
		"killed":             {[]string{"kill", "ready wait"}, "", 2},
		"panics for ever":    {[]string{"panic"}, "crashed: panic: index of a nil map (log: ", crashes + 1},
		"failed by klog":     {[]string{"fatal"}, "crashed: F1128 10:00:00.0 7 main.go:1] no certificate (log: ", crashes + 1},
		"says what is wrong": {[]string{"error"}, "ended at once: port 1 is busy", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSupervised(t, tt.script...)
			err := s.waitForPlane(t.Context(), s.Progress.Step("plane"))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			var crash *CrashError
			if errors.As(err, &crash) && !strings.Contains(err.Error(), "until `slipway down`") {
				t.Errorf("who ends it? %v", err)
			}
			if starts := len(fakeplane.Starts(t, s.Instance.Dir)); starts != tt.starts {
				t.Errorf("started %d times, want %d", starts, tt.starts)
			}
		})
	}
}

// A plane that nobody would start again is stopped, for it to get a supervisor; one that waits to be started again
// does not wait any longer; one that is well goes on.
func TestAPlaneOfUpHasASupervisor(t *testing.T) {
	for name, tt := range map[string]struct {
		script []string
		// then happens once the plane is there
		then   func(t *testing.T, s *Session, holder statedir.Holder)
		starts int
	}{
		"well": {[]string{"ready wait"}, func(*testing.T, *Session, statedir.Holder) {}, 1},
		"its supervisor was killed": {[]string{"ready wait"}, func(t *testing.T, s *Session, holder statedir.Holder) {
			if err := holder.Supervisor.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "the supervisor is gone", func() bool { return !holder.Supervisor.Runs() })
		}, 2},
		"it waits to be started again": {[]string{"ready wait", "panic", "panic", "ready wait"}, func(t *testing.T, s *Session, holder statedir.Holder) {
			if err := holder.Signal(unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "it crashed three times", func() bool {
				seen, err := statedir.ReadCrashes(s.Instance.Dir)
				return err == nil && seen.Count == 3
			})
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSupervised(t, tt.script...)
			step := s.Progress.Step("plane")
			if err := s.waitForPlane(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			holder, _, err := statedir.Running(s.Instance.Dir)
			if err != nil || holder.Supervisor == nil {
				t.Fatalf("%+v, %v", holder, err)
			}
			tt.then(t, s, holder)
			if err := s.stopOutdated(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			exited, err := s.ensureRunning(t.Context())
			if err != nil || (exited != nil) != (tt.starts > 1) {
				t.Errorf("started anew: %v, %v", exited != nil, err)
			}
			eventually.True(t, "the plane is ready", func() bool {
				current := statedir.Current(s.Instance.Dir)
				return current != nil && current.Ready
			})
			now, _, err := statedir.Running(s.Instance.Dir)
			if err != nil || now.Supervisor == nil || (now.Supervisor.PID == holder.Supervisor.PID) != (tt.starts == 1) {
				t.Errorf("%+v, %v; was %+v", now, err, holder)
			}
			if starts := len(fakeplane.Starts(t, s.Instance.Dir)); starts != tt.starts {
				t.Errorf("started %d times, want %d", starts, tt.starts)
			}
			if seen, err := statedir.ReadCrashes(s.Instance.Dir); err != nil || seen.Count > 0 {
				t.Errorf("those of the one before count: %+v, %v", seen, err)
			}
		})
	}
}
