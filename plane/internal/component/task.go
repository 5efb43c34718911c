package component

import (
	"context"
	"sync"
)

// Task is a running function, for components that are built on something that
// blocks until its context ends. It is their [Running]. The zero
// value has not been started; Stop on it does nothing. A Task runs once.
type Task struct {
	once   sync.Once
	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Go runs f in a goroutine, with a context that ends with Stop.
func (t *Task) Go(f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	t.mu.Lock()
	t.cancel = cancel
	t.mu.Unlock()
	done := t.doneChan()
	go func() {
		defer close(done)
		t.err = f(ctx)
	}()
}

// Done is closed when the function has returned.
func (t *Task) Done() <-chan struct{} { return t.doneChan() }

// Err returns what the function returned. It is valid after Done is closed.
func (t *Task) Err() error { return t.err }

// Stop ends the function's context and waits until it has returned, or until
// ctx ends. The function's own error is not returned: it is Err's.
func (t *Task) Stop(ctx context.Context) error {
	t.mu.Lock()
	cancel := t.cancel
	t.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-t.doneChan():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Task) doneChan() chan struct{} {
	t.once.Do(func() { t.done = make(chan struct{}) })
	return t.done
}
