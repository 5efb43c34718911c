package up

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// TestADyingPlaneIsNotReady holds the lock of a plane whose status says that it is ready,
// as the kernel does while it ends a plane that was killed.
func TestADyingPlaneIsNotReady(t *testing.T) {
	s := newSession(t)
	runs(t, s, statedir.Status{PID: os.Getpid(), Ready: true, Server: "https://127.0.0.1:1"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.waitForPlane(ctx, s.Progress.Step("plane")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the plane is waited for", err)
	}
}

// runs lets it look as if this process were the plane, and had told so.
func runs(t *testing.T, s *Session, status statedir.Status) {
	t.Helper()
	lock, err := statedir.Acquire(s.Instance.Dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	if _, running, err := statedir.Running(s.Instance.Dir); err != nil || !running {
		t.Fatalf("no plane runs: %v", err)
	}
	if err := statedir.WriteStatus(s.Instance.Dir, &status); err != nil {
		t.Fatal(err)
	}
}
