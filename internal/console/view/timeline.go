package view

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Timeline keeps the events of Slipway and Cluster API in the order in which they are shown,
// as they come, change and go: thousands are not sorted anew for each that comes. It has as
// many as the API server keeps, those of an hour by default. The zero value is empty. One
// goroutine may tell it while others look.
type Timeline struct {
	mu      sync.RWMutex
	known   map[types.NamespacedName]*entry
	ordered []*entry
	// warnings counts them.
	warnings int
}

// entry is an event, and what it is called by itself.
type entry struct {
	Event
	key types.NamespacedName
}

// before orders entries, the newest first. Of those of one moment that have one object, the
// name ends in the time at which each was begun.
func before(a, b *entry) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(b.key.Name, a.key.Name))
}

// Set adds an event, or what has become of it.
func (t *Timeline) Set(o client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(client.ObjectKeyFromObject(o))
	e, ok := o.(*corev1.Event)
	if !ok || !ours(e.InvolvedObject) {
		return
	}
	added := &entry{eventOf(e), client.ObjectKeyFromObject(e)}
	if t.known == nil {
		t.known = map[types.NamespacedName]*entry{}
	}
	t.known[added.key] = added
	place, _ := slices.BinarySearchFunc(t.ordered, added, before)
	t.ordered = slices.Insert(t.ordered, place, added)
	t.warnings += one(added.Warning)
}

// Delete removes an event that is gone.
func (t *Timeline) Delete(o client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(client.ObjectKeyFromObject(o))
}

// Clear removes all events.
func (t *Timeline) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.ordered, t.warnings = nil, nil, 0
}

func (t *Timeline) remove(key types.NamespacedName) {
	old := t.known[key]
	if old == nil {
		return
	}
	delete(t.known, key)
	if place, found := slices.BinarySearchFunc(t.ordered, old, before); found {
		t.ordered = slices.Delete(t.ordered, place, place+1)
	}
	t.warnings -= one(old.Warning)
}

// About are the events about an object, the newest first.
func (t *Timeline) About(kind, namespace, name string) []Event {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var about []Event
	for _, e := range t.ordered {
		if e.Kind == kind && e.Namespace == namespace && e.Name == name {
			about = append(about, e.Event)
		}
	}
	return about
}

// Latest are the newest n events.
func (t *Timeline) Latest(n int) []Event {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var latest []Event
	for _, e := range t.ordered[:min(n, len(t.ordered))] {
		latest = append(latest, e.Event)
	}
	return latest
}

// Matching are all events that a filter leaves, the newest first.
func (t *Timeline) Matching(filter EventFilter) []Event {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var found []Event
	for _, e := range t.matching(filter) {
		found = append(found, e.Event)
	}
	return found
}

func (t *Timeline) matching(filter EventFilter) []*entry {
	if !filter.Warnings && filter.Text == "" {
		return t.ordered
	}
	var found []*entry
	for _, e := range t.ordered {
		if filter.shows(&e.Event) {
			found = append(found, e)
		}
	}
	return found
}

// Events shows what a filter leaves.
func (t *Timeline) Events(filter EventFilter) Events {
	t.mu.RLock()
	defer t.mu.RUnlock()
	shown := t.matching(filter)
	v := Events{Filter: filter, Total: len(t.ordered), Warnings: t.warnings}
	shown, v.Pager = paged(shown, filter.Page)
	for _, e := range shown {
		v.Shown = append(v.Shown, e.Event)
	}
	return v
}
