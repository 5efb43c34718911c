package agentrelease

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// overlay has what this process wrote of objects until the cache shows it. The zero value
// is ready for use.
type overlay[V any] map[client.ObjectKey]written[V]

// written is the last of a row of writes, each on the version that the one before made.
type written[V any] struct {
	bases []string
	after string
	value V
}

// note records a write by the object before, as the cache had it, and after.
func (o *overlay[V]) note(before, after client.Object, value V) {
	if *o == nil {
		*o = overlay[V]{}
	}
	key := client.ObjectKeyFromObject(before)
	w := (*o)[key]
	if w.after == "" {
		w.after = before.GetResourceVersion()
	}
	(*o)[key] = written[V]{append(w.bases, w.after), after.GetResourceVersion(), value}
}

// over is what was written of an object that the cache has as it was before; false when
// that was nothing.
func (o overlay[V]) over(cached client.Object) (V, bool) {
	key := client.ObjectKeyFromObject(cached)
	w, ok := o[key]
	if ok && slices.Contains(w.bases, cached.GetResourceVersion()) {
		return w.value, true
	}
	delete(o, key)
	var none V
	return none, false
}
