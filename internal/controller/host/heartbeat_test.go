package host

import (
	"testing"
	"time"
)

func TestHeartbeatInterval(t *testing.T) {
	for _, c := range []struct {
		hosts      int
		asks, want time.Duration
	}{
		{0, 0, 0},
		{150, 0, 0},
		{151, 0, 10 * time.Second},
		{151, 20 * time.Second, 20 * time.Second},
		{1000, 0, 80 * time.Second},
		{5000, 0, 420 * time.Second},
		{5000, 340 * time.Second, 340 * time.Second},
		{5000, 700 * time.Second, 420 * time.Second},
		{5001, 330 * time.Second, 420 * time.Second},
		{2000, 420 * time.Second, 170 * time.Second},
		{100, 420 * time.Second, 0},
		{120, 10 * time.Second, 10 * time.Second},
	} {
		if got := heartbeatInterval(c.hosts, c.asks); got != c.want {
			t.Errorf("%d hosts, Lease asks for %s: want %s, got %s", c.hosts, c.asks, c.want, got)
		}
	}
	// The number of writes while a fleet grows host by host.
	changes, asks := 0, time.Duration(0)
	for hosts := range 5000 {
		next := heartbeatInterval(hosts, asks)
		if next != asks {
			changes++
		}
		if need := time.Duration(hosts) * time.Second / heartbeatsPerSecond; need > leastAsked && next < need-leastAsked/2 {
			t.Fatalf("%d hosts renew every %s, which is more often than %s", hosts, next, need)
		}
		asks = next
	}
	if changes > 20 {
		t.Errorf("a Lease was written %d times", changes)
	}
}
