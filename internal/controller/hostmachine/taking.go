package hostmachine

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// takingTime is how long a host that this process claims is left to that claim:
// until the cache shows it, or shows that it came to nothing.
const takingTime = 5 * time.Second

// taking are the hosts that are being claimed by this process. The workers would
// otherwise all choose the best host and all but one get a conflict. It saves
// writes only: whose the host is, the resourceVersion decides. The zero value is
// ready for use.
type taking struct {
	mu    sync.Mutex
	until map[freeHost]time.Time
}

// freeHost is a host in the time between two claims.
type freeHost struct {
	client.ObjectKey
	claimGeneration int64
}

func freeHostOf(h *infrav1.Host) freeHost {
	return freeHost{client.ObjectKeyFromObject(h), h.Spec.ClaimGeneration}
}

// begin reserves a host; false means that another worker has it.
func (t *taking) begin(h freeHost, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.until[h]) {
		return false
	}
	for other, until := range t.until {
		if !now.Before(until) {
			delete(t.until, other)
		}
	}
	if t.until == nil {
		t.until = map[freeHost]time.Time{}
	}
	t.until[h] = now.Add(takingTime)
	return true
}

// end gives a host back that was not claimed.
func (t *taking) end(h freeHost) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.until, h)
}

// wait is how long until no host is reserved; 0 when none is.
func (t *taking) wait(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wait time.Duration
	for _, until := range t.until {
		wait = max(wait, until.Sub(now))
	}
	return wait
}
