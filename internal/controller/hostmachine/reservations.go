package hostmachine

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// reservationTime is how long a host that this process claims is left to that claim:
// until the cache shows it, or shows that it came to nothing.
const reservationTime = 5 * time.Second

// reservations are the hosts that are being claimed by this process. The workers would
// otherwise all choose the best host and all but one get a conflict. It saves
// writes only: whose the host is, the resourceVersion decides. The zero value is
// ready for use.
type reservations struct {
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
func (r *reservations) begin(h freeHost, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.until[h]) {
		return false
	}
	for other, until := range r.until {
		if !now.Before(until) {
			delete(r.until, other)
		}
	}
	if r.until == nil {
		r.until = map[freeHost]time.Time{}
	}
	r.until[h] = now.Add(reservationTime)
	return true
}

// has reports whether a worker has the host.
func (r *reservations) has(h freeHost, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.until[h])
}

// end gives a host back that was not claimed.
func (r *reservations) end(h freeHost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, h)
}

// wait is how long until no host is reserved; 0 when none is.
func (r *reservations) wait(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var wait time.Duration
	for _, until := range r.until {
		wait = max(wait, until.Sub(now))
	}
	return wait
}
