package watch

import (
	"context"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follower keeps what it needs of the objects of a kind as they come and go, so that nobody
// has to list them. It is told by one goroutine at a time. What it is told is shared: it must
// not change it.
type Follower interface {
	// Set is told of an object that is there, or has changed.
	Set(client.Object)
	// Delete is told of one that is gone, as it was known last.
	Delete(client.Object)
	// Clear is told when the user may not read the kind any more.
	Clear()
}

// Quiet is a Follower of a kind that changes all the time: who waits for a change is not told of these.
type Quiet interface {
	Follower
	// Quiet does nothing.
	Quiet()
}

// Follow has a follower told of the kind of an object, once it is watched. It comes before
// anybody reads the kind.
func (r *Reader) Follow(object client.Object, follower Follower) {
	k := r.kind(object)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.follower = follower
}

// Watch has the kind of an object watched, as Get and List do. When it returns without an
// error, the follower of the kind has been told of all there was.
func (r *Reader) Watch(ctx context.Context, object client.Object) error { return r.ensure(ctx, object) }

// feed tells of the objects of one watch: its follower first, then who waits for a change.
type feed struct {
	changed *signal

	mu sync.Mutex
	// follower is nil when nobody follows, or when the watch has ended: what it has still to
	// tell then is out of date.
	follower Follower
}

var _ toolscache.ResourceEventHandler = &feed{}

// OnAdd implements toolscache.ResourceEventHandler.
func (f *feed) OnAdd(object any, _ bool) { f.tell(object, Follower.Set) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (f *feed) OnUpdate(_, object any) { f.tell(object, Follower.Set) }

// OnDelete implements toolscache.ResourceEventHandler.
func (f *feed) OnDelete(object any) {
	// The watch was away when it was deleted.
	if missed, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	f.tell(object, Follower.Delete)
}

func (f *feed) tell(object any, what func(Follower, client.Object)) {
	f.mu.Lock()
	if known, ok := object.(client.Object); ok && f.follower != nil {
		what(f.follower, known)
	}
	_, quiet := f.follower.(Quiet)
	f.mu.Unlock()
	if !quiet {
		f.changed.fire()
	}
}

// end has the follower forget what it was told.
func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follower != nil {
		f.follower.Clear()
		f.follower = nil
	}
}
