package client

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/sdk/registry"
)

// BreakerState tells whether a handler is called.
type BreakerState string

const (
	// BreakerClosed means that the handler is called.
	BreakerClosed BreakerState = "Closed"
	// BreakerOpen means that the handler failed and is left alone for a while.
	BreakerOpen BreakerState = "Open"
	// BreakerHalfOpen means that one call probes the handler.
	BreakerHalfOpen BreakerState = "HalfOpen"
)

// BreakerStatus is the state of one handler.
type BreakerStatus struct {
	// Handler is the qualified name of the handler.
	Handler string
	// State tells whether it is called.
	State BreakerState
	// Failures is the number of failures since the last success.
	Failures int
	// Until is the end of the pause.
	Until time.Time
	// LastError is the error that opened the breaker.
	LastError error
}

// breakers holds a breaker for each handler that failed. One that never failed or
// has recovered has none, so the map does not outgrow the failing handlers.
type breakers struct {
	backoff  Backoff
	now      func() time.Time
	metrics  *metrics
	onChange func(handler string, state BreakerState)

	mu       sync.Mutex
	handlers map[string]*breaker
}

type breaker struct {
	fingerprint string
	failures    int
	until       time.Time
	probing     bool
	lastError   error
}

func newBreakers(o *Options, m *metrics) *breakers {
	return &breakers{backoff: o.Backoff, now: o.Now, metrics: m, onChange: o.OnBreaker, handlers: map[string]*breaker{}}
}

// close forgets the failures of a handler. The caller holds the lock.
func (b *breakers) close(handler string) {
	delete(b.handlers, handler)
	b.metrics.setBreaker(handler, BreakerClosed)
	b.changed(handler, BreakerClosed)
}

func (b *breakers) changed(handler string, state BreakerState) {
	if b.onChange != nil {
		b.onChange(handler, state)
	}
}

// allow tells whether r may be called now, and if not, after what time. A caller
// that is allowed must call done.
func (b *breakers) allow(r *registry.Registration) (bool, time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.handlers[r.Name]
	if known == nil {
		return true, 0, nil
	}
	if known.fingerprint != r.Fingerprint {
		// The configuration changed, and with it perhaps what was wrong.
		b.close(r.Name)
		return true, 0, nil
	}
	wait := known.until.Sub(b.now())
	if wait > 0 || known.probing {
		return false, max(wait, 0), known.lastError
	}
	known.probing = true
	b.metrics.setBreaker(r.Name, BreakerHalfOpen)
	return true, 0, nil
}

// done reports the outcome of a call that allow let pass: callErr is nil if the
// handler answered. With neutral set the call tells nothing about the handler.
func (b *breakers) done(r *registry.Registration, callErr error, neutral bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.handlers[r.Name]
	switch {
	case known != nil && known.fingerprint != r.Fingerprint:
		// The call was made with an older configuration.
	case neutral:
		if known != nil {
			known.probing = false
		}
	case callErr == nil:
		if known != nil {
			b.close(r.Name)
		}
	default:
		b.fail(r, known, callErr)
	}
}

func (b *breakers) fail(r *registry.Registration, known *breaker, err error) {
	now := b.now()
	if known == nil {
		known = &breaker{fingerprint: r.Fingerprint}
		b.handlers[r.Name] = known
	} else if !known.probing && now.Before(known.until) {
		// A call that began before the breaker opened: the same outage.
		return
	}
	known.failures++
	known.probing = false
	known.lastError = err
	known.until = now.Add(b.pause(known.failures))
	b.metrics.setBreaker(r.Name, BreakerOpen)
	if known.failures == 1 {
		b.changed(r.Name, BreakerOpen)
	}
}

// pause returns the time to leave a handler alone after the nth failure in a row.
func (b *breakers) pause(n int) time.Duration {
	d := float64(b.backoff.Initial) * math.Pow(b.backoff.Factor, float64(n-1))
	d = min(d, float64(b.backoff.Max))
	return time.Duration(d * (1 - b.backoff.Jitter*rand.Float64()))
}

// Breakers returns the state of all handlers that failed since their last
// success, ordered by name. The others are closed.
func (c *Client) Breakers() []BreakerStatus {
	b := c.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]BreakerStatus, 0, len(b.handlers))
	for name, known := range b.handlers {
		state := BreakerOpen
		if known.probing {
			state = BreakerHalfOpen
		}
		list = append(list, BreakerStatus{Handler: name, State: state, Failures: known.failures, Until: known.until, LastError: known.lastError})
	}
	slices.SortFunc(list, func(x, y BreakerStatus) int { return cmp.Compare(x.Handler, y.Handler) })
	return list
}

// Forget drops what is known about the handlers of an ExtensionConfig that was
// removed, and their metrics.
func (c *Client) Forget(config string) {
	b := c.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.handlers {
		if strings.HasSuffix(name, "."+config) {
			delete(b.handlers, name)
			b.metrics.breaker.DeleteLabelValues(name)
		}
	}
}
