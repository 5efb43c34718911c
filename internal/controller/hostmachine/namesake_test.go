package hostmachine_test

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// Clusters of one name in two namespaces have nothing to do with each other, and neither have their hosts and
// machines of one name: each has its own init host, whose right nobody of the other ends, and workers wait for
// their own control plane only.
func TestClustersOfOneName(t *testing.T) {
	w := newWorld(t)
	other := &world{t: t, namespace: env.Namespace(t), clock: w.clock}
	other.Reconciler = other.reconciler(env.Client)
	testenv.NewCluster(t, env.Client, other.namespace)

	there := other.host("host-1")
	other.reconcile(other.machine("m1", controlPlane))
	assertInitializes(t, there, ptr.To(true))
	here := w.host("host-1")
	w.reconcile(w.machine("m1", controlPlane))
	assertInitializes(t, here, ptr.To(true))

	// The other Cluster is initialized, and its next machine joins: that withdraws the right of its own hosts only.
	other.setCluster(initializedByStatus)
	second := other.host("host-2")
	other.reconcile(other.machine("m2", controlPlane))
	assertInitializes(t, second, ptr.To(false))
	assertInitializes(t, there, ptr.To(false))
	assertInitializes(t, here, ptr.To(true))

	// A machine of the other control plane waits for a host: the worker here need not wait.
	other.machine("m3", controlPlane)
	w.host("host-3")
	if m, _ := w.reconcile(w.machine("worker")); m.Status.HostRef.Name != "host-3" {
		t.Errorf("the worker has host %q, and waits: %+v", m.Status.HostRef.Name, m.Status.Conditions)
	}
	other.host("host-3")
	m, _ := other.reconcile(other.machine("worker"))
	if m.Status.HostRef.Name != "" {
		t.Errorf("the worker of the Cluster whose control plane waits has host %q", m.Status.HostRef.Name)
	}
	for _, c := range m.Status.Conditions {
		if c.Type == infrav1.HostClaimedCondition && c.Reason != infrav1.HostMachineControlPlaneFirstReason {
			t.Errorf("it waits with reason %s: %s", c.Reason, c.Message)
		}
	}
}
