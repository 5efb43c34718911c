package throttle

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// share of the time that an object may be reconciled in, 1 in so many.
	share = 4
	// longest rest. Only reconciles that take seconds come near it.
	longest = 5 * time.Second
)

// Queue is a work queue that lets an object rest between two reconciles, the longer the
// longer they take. Those of a few milliseconds are delayed by as little.
type Queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	clock clock.PassiveClock

	mu sync.Mutex
	// begun holds the objects that are being reconciled, again those of them that
	// were added meanwhile, and rests until when the others rest.
	begun map[reconcile.Request]time.Time
	again map[reconcile.Request]bool
	rests map[reconcile.Request]time.Time
}

// NewQueue makes a queue; it fits into the options of a controller as NewQueue.
func NewQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	inner := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})
	return WrapQueue(inner, clock.RealClock{})
}

// WrapQueue makes a queue of another one, with a clock.
func WrapQueue(inner workqueue.TypedRateLimitingInterface[reconcile.Request], c clock.PassiveClock) *Queue {
	return &Queue{
		TypedRateLimitingInterface: inner, clock: c,
		begun: map[reconcile.Request]time.Time{}, again: map[reconcile.Request]bool{}, rests: map[reconcile.Request]time.Time{},
	}
}

// Add adds an object when it has rested.
func (q *Queue) Add(item reconcile.Request) { q.AddAfter(item, 0) }

// AddAfter adds an object after a while, and not before it has rested.
func (q *Queue) AddAfter(item reconcile.Request, after time.Duration) {
	q.mu.Lock()
	_, busy := q.begun[item]
	if busy && after <= 0 {
		q.again[item] = true
	}
	rest := q.rests[item].Sub(q.clock.Now())
	q.mu.Unlock()
	switch after = max(after, rest); {
	case after > 0:
		q.TypedRateLimitingInterface.AddAfter(item, after)
	case !busy:
		q.TypedRateLimitingInterface.Add(item)
	}
}

// Get notes when the reconcile of an object begins.
func (q *Queue) Get() (reconcile.Request, bool) {
	item, shutdown := q.TypedRateLimitingInterface.Get()
	if !shutdown {
		q.mu.Lock()
		q.begun[item] = q.clock.Now()
		q.mu.Unlock()
	}
	return item, shutdown
}

// Done lets an object rest, then queues it if it was added meanwhile.
func (q *Queue) Done(item reconcile.Request) {
	q.mu.Lock()
	now := q.clock.Now()
	for other, until := range q.rests {
		if !now.Before(until) {
			delete(q.rests, other)
		}
	}
	if begun, ok := q.begun[item]; ok {
		q.rests[item] = now.Add(min((share-1)*now.Sub(begun), longest))
	}
	again := q.again[item]
	delete(q.begun, item)
	delete(q.again, item)
	q.mu.Unlock()
	q.TypedRateLimitingInterface.Done(item)
	if again {
		q.Add(item)
	}
}
