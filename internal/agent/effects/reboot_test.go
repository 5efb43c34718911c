package effects_test

import (
	"testing"

	"github.com/slipway-dev/slipway/test/fakehost"
)

// TestReboot tells a systemctl that the reboot itself ended from one that refused.
func TestReboot(t *testing.T) {
	for code, obeyed := range map[int]bool{0: true, 1: false, 143: true, 137: true, 134: false} {
		h := fakehost.New(t)
		if code != 0 {
			h.Programs.Fail = map[string]int{"systemctl reboot": code}
		}
		if err := h.Executor.Reboot(t.Context()); (err == nil) != obeyed {
			t.Errorf("systemctl ends with %d: %v", code, err)
		}
	}
}
