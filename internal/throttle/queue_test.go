package throttle_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/throttle"
)

func newQueue(t *testing.T) (*throttle.Queue, *testclock.FakeClock) {
	t.Helper()
	clock := testclock.NewFakeClock(time.Now())
	queue := throttle.WrapQueue(workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](),
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clock}), clock)
	t.Cleanup(queue.ShutDown)
	return queue, clock
}

// work takes the next object and reconciles it for a while.
func work(t *testing.T, queue *throttle.Queue, clock *testclock.FakeClock, takes time.Duration, meanwhile func()) reconcile.Request {
	t.Helper()
	item, _ := queue.Get()
	clock.SetTime(clock.Now().Add(takes))
	meanwhile()
	queue.Done(item)
	return item
}

// await waits for the goroutine of the inner queue, which follows the clock.
func await(t *testing.T, queue *throttle.Queue, length int) {
	t.Helper()
	poll.Until(t, "the queue follows the clock", func() error {
		if n := queue.Len(); n != length {
			return fmt.Errorf("%d objects are queued, want %d", n, length)
		}
		return nil
	})
}

var (
	pool  = reconcile.Request{NamespacedName: types.NamespacedName{Name: "pool"}}
	other = reconcile.Request{NamespacedName: types.NamespacedName{Name: "other"}}
)

func TestRestGrowsWithTheReconcile(t *testing.T) {
	queue, clock := newQueue(t)
	queue.Add(pool)
	// However often it is added meanwhile, it rests first, and comes once.
	work(t, queue, clock, time.Second, func() {
		for range 10 {
			queue.Add(pool)
		}
	})
	queue.Add(pool)
	await(t, queue, 0)
	queue.Add(other)
	await(t, queue, 1)
	if item := work(t, queue, clock, 0, func() {}); item != other {
		t.Errorf("%s came, want the object that needs no rest", item)
	}
	poll.True(t, "it waits for the clock", clock.HasWaiters)
	clock.SetTime(clock.Now().Add(2 * time.Second))
	await(t, queue, 0)
	clock.SetTime(clock.Now().Add(time.Second))
	await(t, queue, 1)
	if item := work(t, queue, clock, 0, func() {}); item != pool {
		t.Errorf("%s came, want %s", item, pool)
	}
	await(t, queue, 0)
}

func TestShortReconcilesDoNotRest(t *testing.T) {
	queue, clock := newQueue(t)
	queue.Add(pool)
	work(t, queue, clock, 0, func() { queue.Add(pool) })
	await(t, queue, 1)
}
