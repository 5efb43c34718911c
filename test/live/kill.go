package live

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// Kill ends a process with SIGKILL and waits until it is gone: a plane has its port until
// the kernel has taken its memory back.
func Kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll.True(t, Patience(10*time.Second), "the killed process is gone", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}
