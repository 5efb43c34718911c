package hostmachine_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// The ranking made for the first machine serves the second one: it must not overlook
// what became of a host since, nor a host that came since.
func TestARecentRankingIsNotTheTruth(t *testing.T) {
	w := newWorld(t)
	host := func(name string) {
		w.host(name, func(h *infrav1.Host) { h.Labels = map[string]string{"order": name} })
	}
	var preferred []infrav1.PreferredHosts
	for i, name := range []string{"host-5", "host-4", "host-3", "host-2", "host-1", "host-0"} {
		preferred = append(preferred, infrav1.PreferredHosts{Weight: int32(i + 1), HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"order": name}}})
	}
	for _, name := range []string{"host-1", "host-2", "host-3"} {
		host(name)
	}
	claimed := func(key client.ObjectKey) string {
		m, _ := w.reconcile(key)
		return m.Status.HostRef.Name
	}
	machine := func(name string) client.ObjectKey {
		return w.machine(name, func(_ *clusterv1.Machine, m *infrav1.HostMachine) { m.Spec.Preferred = preferred })
	}
	if got := claimed(machine("m1")); got != "host-1" {
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
	if got := claimed(machine("m2")); got != "host-3" {
		t.Errorf("the second machine has %q: host-2 was taken out of service after the ranking", got)
	}
	host("host-4")
	if got := claimed(machine("m3")); got != "host-4" {
		t.Errorf("the third machine has %q: host-4 came after the ranking", got)
	}

	// With the ranking grown old, the best host is the best one again.
	host("host-0")
	host("host-5")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	if got := claimed(machine("m4")); got != "host-0" {
		t.Errorf("the fourth machine has %q, want the one that is preferred most", got)
	}
}
