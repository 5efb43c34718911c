package hostmachine

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// written remembers on which versions of an object the last writes of this process
// were made. A cache that shows one of them lags behind, and what is computed from
// it would be written a second time; it catches up with an event. The zero value is
// ready for use.
type written struct {
	mu     sync.Mutex
	chains map[client.ObjectKey]chain
}

// chain is a row of writes, each on the version that the one before made.
type chain struct {
	bases []string
	after string
}

// note records a write by the object before and after. One that changed nothing made
// no version, and no event to wait for.
func (w *written) note(before, after client.Object) {
	base, version := before.GetResourceVersion(), after.GetResourceVersion()
	if base == version {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chains == nil {
		w.chains = map[client.ObjectKey]chain{}
	}
	key := client.ObjectKeyFromObject(before)
	c := w.chains[key]
	if c.after != base {
		c.bases = nil
	}
	w.chains[key] = chain{append(c.bases, base), version}
}

// stale says whether an object, as the cache has it, is older than what this process
// wrote.
func (w *written) stale(object client.Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	if slices.Contains(w.chains[key].bases, object.GetResourceVersion()) {
		return true
	}
	delete(w.chains, key)
	return false
}
