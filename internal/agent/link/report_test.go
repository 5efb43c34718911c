package link

import (
	"slices"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
)

func TestPassingFollowsHeartbeats(t *testing.T) {
	for heartbeats, want := range map[time.Duration]time.Duration{
		5 * time.Second: time.Second, 10 * time.Second: time.Second, 80 * time.Second: 8 * time.Second, 420 * time.Second: maxPassingDelay,
	} {
		if got := passing(heartbeats); got != want {
			t.Errorf("heartbeats every %s: steps wait %s, want %s", heartbeats, got, want)
		}
	}
}

func TestWhatWasFoundIsReported(t *testing.T) {
	found := []string{"process kubelet (PID 7)"}
	if got := status(inventory.Facts{}, "boot", journal.State{Found: found}, nil).Residue; !slices.Equal(got, found) {
		t.Errorf("residue %q, want %q", got, found)
	}
}
