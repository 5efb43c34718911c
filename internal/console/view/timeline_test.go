package view

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// many are events at once: as many as a fleet of hundreds of hosts makes in an hour.
const many = 5000

// sorted is what a Timeline shows, by sorting all events.
func sorted(all map[types.NamespacedName]*corev1.Event, filter EventFilter) Events {
	v := Events{Filter: filter}
	var shown []*entry
	for key, e := range all {
		if !ours(e.InvolvedObject) {
			continue
		}
		known := &entry{eventOf(e), key}
		v.Total++
		v.Warnings += one(known.Warning)
		if filter.shows(&known.Event) {
			shown = append(shown, known)
		}
	}
	slices.SortFunc(shown, before)
	page, pager := paged(shown, filter.Page)
	v.Pager = pager
	for _, e := range page {
		v.Shown = append(v.Shown, e.Event)
	}
	return v
}

// random is one of few moments, so that many have the same, of few names, so that it was
// often there before.
func random(r *rand.Rand, names int) *corev1.Event {
	groups := []string{"infrastructure.slipway.dev/v1beta2", "cluster.x-k8s.io/v1beta2", "lifecycle.slipway.dev/v1alpha1", "v1"}
	name := r.IntN(names)
	e := event(groups[r.IntN(len(groups))], "Host", fmt.Sprintf("host-%d", name%50), "Claimed", []string{corev1.EventTypeNormal, corev1.EventTypeWarning}[r.IntN(2)], r.Int64N(500))
	e.Namespace, e.Name = fmt.Sprintf("n%d", name%3), fmt.Sprintf("e%d", name)
	e.Count = r.Int32N(9)
	return &e
}

// Whatever comes, changes and goes, a Timeline shows what sorting all events would.
func TestTimelineIsSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(4711, 1))
	timeline, all := &Timeline{}, map[types.NamespacedName]*corev1.Event{}
	check := func() {
		t.Helper()
		for _, filter := range []EventFilter{{}, {Page: 2}, {Page: 99}, {Warnings: true, Page: 3}, {Text: "HOST-7"}, {Text: "host-1", Warnings: true, Page: 2}, {Text: "nothing"}} {
			if got, want := timeline.Events(filter), sorted(all, filter); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v of %d events shows %+v, want %+v", filter, len(all), got, want)
			}
		}
	}
	set := func(e *corev1.Event) {
		all[client.ObjectKeyFromObject(e)] = e
		timeline.Set(e)
	}
	check()
	for len(all) < many {
		set(random(r, 2*many))
	}
	check()
	for round := range 200 {
		for range 25 {
			e := random(r, 2*many)
			if r.IntN(3) > 0 {
				set(e)
				continue
			}
			timeline.Delete(e) // which is not there, half of the time
			delete(all, client.ObjectKeyFromObject(e))
		}
		if round%10 == 0 {
			check()
		}
	}
	check()
	for _, e := range slices.Collect(maps.Values(all)) {
		timeline.Delete(e)
		delete(all, client.ObjectKeyFromObject(e))
	}
	check()
	set(random(r, 1))
	timeline.Clear()
	clear(all)
	check()
}

func BenchmarkEvents(b *testing.B) {
	r := rand.New(rand.NewPCG(4711, 1))
	timeline, all := &Timeline{}, map[types.NamespacedName]*corev1.Event{}
	for len(timeline.known) < many {
		e := random(r, 2*many)
		all[client.ObjectKeyFromObject(e)] = e
		timeline.Set(e)
	}
	b.Run("in order", func(b *testing.B) {
		for b.Loop() {
			timeline.Set(random(r, 2*many))
			timeline.Events(EventFilter{})
		}
	})
	b.Run("sorted anew", func(b *testing.B) {
		for b.Loop() {
			e := random(r, 2*many)
			all[client.ObjectKeyFromObject(e)] = e
			sorted(all, EventFilter{})
		}
	})
}
