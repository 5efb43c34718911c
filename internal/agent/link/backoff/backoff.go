package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	first       = 200 * time.Millisecond
	earlyCap    = 5 * time.Second
	lateCap     = 30 * time.Second
	earlyPeriod = time.Minute
)

// Backoff grows from 200 ms by doubling, capped at 5 s within the first minute
// of an outage and at 30 s after it. The zero value is ready to use; it is not
// safe for concurrent use.
type Backoff struct {
	started time.Time
	next    time.Duration
	// EarlyCap replaces the 5 s.
	EarlyCap time.Duration
	// Rand returns a number in [0,1). Defaults to math/rand/v2.
	Rand func() float64
}

// Next returns the wait before the next try: between half and all of the
// current step, so that hosts which lost the server together do not return together.
func (b *Backoff) Next(now time.Time) time.Duration {
	if b.next == 0 {
		b.started, b.next = now, first
	}
	limit := earlyCap
	if b.EarlyCap != 0 {
		limit = b.EarlyCap
	}
	if now.Sub(b.started) >= earlyPeriod {
		limit = lateCap
	}
	step := min(b.next, limit)
	b.next = min(b.next*2, lateCap)
	random := rand.Float64
	if b.Rand != nil {
		random = b.Rand
	}
	return step/2 + time.Duration(random()*float64(step/2))
}

// Reset is called after a success.
func (b *Backoff) Reset() { b.next = 0 }

// Sleep waits for d. It reports false when the context ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
