package hostmachine_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// The ranking made for the first machine serves the second one: it must not overlook
// what became of a host since, nor a host that came since.
func TestARecentRankingIsNotTheTruth(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"host-1", "host-2", "host-3"} {
		w.host(name)
	}
	claimed := func(key client.ObjectKey) string {
		m, _ := w.reconcile(key)
		return m.Status.HostRef.Name
	}
	if got := claimed(w.machine("m1")); got != "host-1" {
		t.Fatalf("the first machine has %q", got)
	}

	second := &infrav1.Host{}
	if err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: "host-2"}, second); err != nil {
		t.Fatal(err)
	}
	second.Spec.Unschedulable = ptr.To(true)
	if err := env.Client.Update(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	if got := claimed(w.machine("m2")); got != "host-3" {
		t.Errorf("the second machine has %q: host-2 was taken out of service after the ranking", got)
	}
	w.host("host-4")
	if got := claimed(w.machine("m3")); got != "host-4" {
		t.Errorf("the third machine has %q: host-4 came after the ranking", got)
	}

	// With the ranking grown old, the best host is the best one again.
	w.host("host-0")
	w.host("host-5")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	if got := claimed(w.machine("m4")); got != "host-0" {
		t.Errorf("the fourth machine has %q, want the first by name", got)
	}
}
