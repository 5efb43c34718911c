package hostmachine_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// Nothing of ours acts on a HostCluster that somebody else manages: its address is theirs.
func TestAddressOfOthersIsNotHeld(t *testing.T) {
	w := newWorld(t)
	hostCluster := &infrav1.HostCluster{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: testenv.ClusterName}, hostCluster); err != nil {
		t.Fatal(err)
	}
	hostCluster.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
	if err := env.Client.Update(t.Context(), hostCluster); err != nil {
		t.Fatal(err)
	}
	agent := w.host("host-1")
	w.reconcile(w.machine("m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
	}))
	if desired := agent.Host(t).Spec.Desired; desired == nil || desired.VirtualIP != "" {
		t.Errorf("requested %+v", desired)
	}
}
