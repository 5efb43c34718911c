package live

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// Kill ends a process with SIGKILL and waits until it is gone: a plane has its port until
// the kernel has taken its memory back.
func Kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the killed process is gone", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// KillAll ends the plane by SIGKILL, and its supervisor first, which would start it again.
func (p Plane) KillAll(t testing.TB) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.StateDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		PID        int `json:"pid"`
		Supervisor struct {
			PID int `json:"pid"`
		} `json:"supervisor"`
	}
	if err := json.Unmarshal(data, &lock); err != nil || lock.PID == 0 || lock.Supervisor.PID == 0 {
		t.Fatalf("%v: no plane and supervisor in %s", err, data)
	}
	Kill(t, lock.Supervisor.PID)
	Kill(t, lock.PID)
}
