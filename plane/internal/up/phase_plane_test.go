package up

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/serve"
)

// TestADyingPlaneIsNotReady holds the lock of a plane whose status says that it is ready,
// as the kernel does while it ends a plane that was killed.
func TestADyingPlaneIsNotReady(t *testing.T) {
	s := newSession(t)
	lock, err := os.Create(s.Instance.Path("lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if _, running, err := serve.Running(s.Instance.Dir); err != nil || !running {
		t.Fatalf("no plane runs: %v", err)
	}
	status, err := json.Marshal(serve.Status{Ready: true, Server: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Instance.Path("status.json"), status, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.waitForPlane(ctx, s.Progress.Step("plane")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the plane is waited for", err)
	}
}
