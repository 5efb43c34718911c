package statedir

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/plane/internal/sandbox/process"
)

// TestStopLeavesAReusedPIDAlone has a lock that names a process which has ended, and whose number belongs to
// another one: a plane that starts holds the lock and has not written its name yet.
func TestStopLeavesAReusedPIDAlone(t *testing.T) {
	dir := t.TempDir()
	lock, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })

	bystander := exec.CommandContext(t.Context(), "sleep", "infinity")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	reused, err := process.IDOf(bystander.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	reused.StartTime--
	data, err := json.Marshal(Holder{ID: reused})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Stop(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "just starting") {
		t.Errorf("Stop: %v", err)
	}
	// A signal would have arrived before the one that is sent now.
	if err := bystander.Process.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	if err := bystander.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the other process ended with %v", err)
	}
}
