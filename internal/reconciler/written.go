package reconciler

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Written remembers the last writes of this process to objects, with a value of each, until
// the cache shows them. A cache that has an object as it was before one of them lags behind,
// and what is computed from it would be written a second time; it catches up with an event.
// The zero value is ready for use.
type Written[V any] struct {
	mu     sync.Mutex
	chains map[client.ObjectKey]chain[V]
}

// chain is a row of writes, each on the version that the one before made.
type chain[V any] struct {
	bases []string
	after string
	value V
}

// Note records a write by the object before, as the cache had it or an earlier write made
// it, and after. One that changed nothing made no version, and no event to wait for.
func (w *Written[V]) Note(before, after client.Object, value V) {
	base, version := before.GetResourceVersion(), after.GetResourceVersion()
	key := client.ObjectKeyFromObject(before)
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.chains[key]
	if base == version || c.after == version {
		return
	}
	if c.after == base || slices.Contains(c.bases, base) {
		// What is written without a lock is written on the last version, whatever the cache has.
		base = c.after
	} else {
		c.bases = nil
	}
	if w.chains == nil {
		w.chains = map[client.ObjectKey]chain[V]{}
	}
	w.chains[key] = chain[V]{append(c.bases, base), version, value}
}

// Over is the value that was last written of an object which the cache has as it was before;
// false when the cache lacks nothing.
func (w *Written[V]) Over(cached client.Object) (value V, lacking bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	if c := w.chains[key]; slices.Contains(c.bases, cached.GetResourceVersion()) {
		return c.value, true
	}
	delete(w.chains, key)
	return value, false
}

// Forget drops an object that is gone.
func (w *Written[V]) Forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.chains, key)
}
