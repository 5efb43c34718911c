package agent

import (
	"testing"
	"time"
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
