package up

import (
	"errors"
	"os"
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
