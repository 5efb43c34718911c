package client

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/sdk/hook"
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

// objectKey names the object that a handler is called for.
type objectKey struct {
	kind            reflect.Type
	namespace, name string
}

func keyOf(object registry.Object) objectKey {
	return objectKey{reflect.TypeOf(object), object.GetNamespace(), object.GetName()}
}

const (
	// inARow is for how many objects a handler must fail, with no success between
	// them, to be left alone for all objects. Fewer may be the fault of the objects.
	inARow = 3
	// maxObjects bounds the objects of a handler that are remembered.
	maxObjects = 1024
	// forgetAfter is how long after its pause an object is forgotten for which the
	// handler was not called again.
	forgetAfter = 10 * time.Minute
)

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

// breaker is what is known about a handler that fails. One object that makes it fail
// is left alone without the others.
type breaker struct {
	fingerprint string
	// whole is the pause for all objects.
	whole pause
	// objects are the pauses for single objects.
	objects map[objectKey]*pause
	// row holds the objects it failed for since its last success, up to inARow.
	row map[objectKey]struct{}
}

// pause is a time in which no call is made. The zero value is none.
type pause struct {
	failures  int
	until     time.Time
	probing   bool
	lastError error
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

// of returns the pauses that a call for object has to respect.
func (k *breaker) of(object objectKey) []*pause {
	pauses := []*pause{&k.whole}
	if p := k.objects[object]; p != nil {
		pauses = append(pauses, p)
	}
	return pauses
}

// allow tells whether r may be called now for object, and if not, after what time. A
// caller that is allowed must call done.
func (b *breakers) allow(r *registry.Registration, object objectKey) (bool, time.Duration, error) {
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
	pauses := known.of(object)
	for _, p := range pauses {
		if wait := p.until.Sub(b.now()); p.failures > 0 && (wait > 0 || p.probing) {
			return false, max(wait, 0), p.lastError
		}
	}
	for _, p := range pauses {
		if p.failures > 0 {
			p.probing = true
			b.metrics.setBreaker(r.Name, BreakerHalfOpen)
		}
	}
	return true, 0, nil
}

// done reports the outcome of a call that allow let pass: callErr is nil if the
// handler answered. With neutral set the call tells nothing about the handler.
func (b *breakers) done(r *registry.Registration, object objectKey, callErr *CallError, neutral bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.handlers[r.Name]
	switch {
	case known != nil && known.fingerprint != r.Fingerprint:
		// The call was made with an older configuration.
	case neutral:
		if known != nil {
			for _, p := range known.of(object) {
				p.probing = false
			}
		}
	case callErr == nil:
		if known != nil {
			b.succeed(r, known, object)
		}
	default:
		b.fail(r, known, object, callErr)
	}
}

func (b *breakers) succeed(r *registry.Registration, known *breaker, object objectKey) {
	known.whole = pause{}
	clear(known.row)
	delete(known.objects, object)
	if b.expire(known); len(known.objects) == 0 {
		b.close(r.Name)
		return
	}
	b.metrics.setBreaker(r.Name, BreakerOpen)
}

// expire forgets objects that may be gone.
func (b *breakers) expire(known *breaker) {
	now := b.now()
	maps.DeleteFunc(known.objects, func(_ objectKey, p *pause) bool { return now.Sub(p.until) > forgetAfter })
}

func (b *breakers) fail(r *registry.Registration, known *breaker, object objectKey, err *CallError) {
	fresh := known == nil
	if fresh {
		known = &breaker{fingerprint: r.Fingerprint, objects: map[objectKey]*pause{}, row: map[objectKey]struct{}{}}
		b.handlers[r.Name] = known
	}
	if len(known.row) < inARow {
		known.row[object] = struct{}{}
	}
	if aboutEndpoint(err.Err) || len(known.row) == inARow {
		b.extend(&known.whole, err)
	}
	if !aboutEndpoint(err.Err) {
		if known.objects[object] == nil && len(known.objects) < maxObjects {
			known.objects[object] = &pause{}
		}
		if p := known.objects[object]; p != nil {
			b.extend(p, err)
		}
	}
	for _, p := range known.of(object) {
		p.probing = false
	}
	b.metrics.setBreaker(r.Name, BreakerOpen)
	if fresh {
		b.changed(r.Name, BreakerOpen)
	}
}

// extend begins the next pause, unless the call began before the last one: that is
// the same outage.
func (b *breakers) extend(p *pause, err error) {
	now := b.now()
	if p.failures > 0 && !p.probing && now.Before(p.until) {
		return
	}
	p.failures++
	p.lastError = err
	p.until = now.Add(b.length(p.failures))
}

// length returns the time to leave a handler alone after the nth failure in a row.
func (b *breakers) length(n int) time.Duration {
	d := float64(b.backoff.Initial) * math.Pow(b.backoff.Factor, float64(n-1))
	d = min(d, float64(b.backoff.Max))
	return time.Duration(d * (1 - b.backoff.Jitter*rand.Float64()))
}

// status returns what is told about a handler: the pause that ends last.
func (k *breaker) status(handler string) BreakerStatus {
	last := &k.whole
	for _, p := range k.objects {
		if p.until.After(last.until) {
			last = p
		}
	}
	state := BreakerOpen
	if last.probing {
		state = BreakerHalfOpen
	}
	return BreakerStatus{Handler: handler, State: state, Failures: last.failures, Until: last.until, LastError: last.lastError}
}

// Breakers returns the state of all handlers that failed since their last success,
// for one object at least, ordered by name. The others are closed. What is known of handlers that
// their extension no longer serves is dropped, as Forget does.
func (c *Client) Breakers() []BreakerStatus {
	registered := map[string]bool{}
	for _, use := range c.options.Registry.Uses() {
		registered[use.Handler] = true
	}
	b := c.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]BreakerStatus, 0, len(b.handlers))
	for name, known := range b.handlers {
		if !registered[name] {
			b.drop(name)
			continue
		}
		if b.expire(known); known.whole.failures == 0 && len(known.objects) == 0 {
			delete(b.handlers, name)
			b.metrics.setBreaker(name, BreakerClosed)
			continue
		}
		list = append(list, known.status(name))
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
		if hook.ConfigName(name) == config {
			b.drop(name)
		}
	}
}

// drop, called with the lock held, forgets a handler.
func (b *breakers) drop(name string) {
	delete(b.handlers, name)
	b.metrics.breaker.DeleteLabelValues(name)
}
