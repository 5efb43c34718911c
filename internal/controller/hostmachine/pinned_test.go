package hostmachine_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// A machine that names its host can have no other, as the one that Rebootstrap makes: all
// others pass the host over, from whatever moment it waits.
func TestHostThatAWaitingMachineNamesIsLeftToIt(t *testing.T) {
	w := newWorld(t)
	names := w.machine("names", func(_ *clusterv1.Machine, m *infrav1.HostMachine) { m.Spec.HostName = "host-1" })
	w.host("host-1")
	waits := w.machine("a-waits")
	other, _ := w.reconcile(waits)
	if message := conditions.GetMessage(other, infrav1.HostClaimedCondition); other.Spec.ProviderID != "" || !strings.Contains(message, "reserved for HostMachine names") {
		t.Errorf("a-waits has host %q, HostClaimed: %q, want host-1 to be reserved for the machine that names it", other.Status.HostRef.Name, message)
	}
	if one, _ := w.reconcile(names); one.Status.HostRef.Name != "host-1" {
		t.Errorf("the machine that names host-1 has host %q", one.Status.HostRef.Name)
	}
}

// A machine that will never get the host that it names keeps it from nobody.
func TestHostThatNobodyCanTakeIsNotReserved(t *testing.T) {
	for name, tc := range map[string]struct {
		names func(*clusterv1.Machine, *infrav1.HostMachine)
		then  func(*world, client.ObjectKey)
	}{
		"a HostMachine that leaves": {then: (*world).delete},
		"a Machine that leaves": {
			names: func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Finalizers = []string{"example.com/hold"} },
			then: func(w *world, key client.ObjectKey) {
				if err := env.Client.Delete(w.t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
					w.t.Fatal(err)
				}
			},
		},
		"one that the host does not fit": {names: func(_ *clusterv1.Machine, m *infrav1.HostMachine) {
			m.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "host"}}
		}},
		"one in another failure domain": {names: func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.FailureDomain = "elsewhere" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			names := w.machine("names", func(machine *clusterv1.Machine, m *infrav1.HostMachine) {
				m.Spec.HostName = "host-1"
				if tc.names != nil {
					tc.names(machine, m)
				}
			})
			w.reconcile(names)
			w.host("host-1")
			if tc.then != nil {
				tc.then(w, names)
			}
			if other, _ := w.reconcile(w.machine("other")); other.Status.HostRef.Name != "host-1" {
				t.Errorf("the other machine has host %q, want host-1: %s", other.Status.HostRef.Name, conditions.GetMessage(other, infrav1.HostClaimedCondition))
			}
		})
	}
}
