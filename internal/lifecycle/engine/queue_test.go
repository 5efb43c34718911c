package engine_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// The fault for which the engine does without the priority queue: one that is shut down
// while a worker waits for it may hand that worker an item when it has gone, and then holds
// its locks for ever, so that no other worker ends. Source: kubernetes-sigs/controller-runtime
// 3538, mended by 3540. Once this fails, the option in Run can go.
func TestPriorityQueueBlocksWhenShutDown(t *testing.T) {
	for range 2000 {
		if !endsWhenShutDown() {
			return
		}
	}
	t.Error("the priority queue ends whenever it is shut down: drop UsePriorityQueue from run.go")
}

// endsWhenShutDown shuts a queue down while one worker waits for it, one item has become
// free that moment and another worker is about to say that it is done.
func endsWhenShutDown() bool {
	q := priorityqueue.New[string]("blocks")
	q.Add("free")
	q.Add("busy")
	q.Get()
	q.Get()
	go q.Get()
	q.Add("free")
	q.Len()
	time.Sleep(100 * time.Microsecond)

	q.Done("free")
	q.ShutDown()
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.Done("busy")
	}()
	select {
	case <-done:
		return true
	case <-time.After(2 * time.Second):
		return false
	}
}
