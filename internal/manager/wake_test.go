package manager_test

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// A machine that waits for a host in its failure domain looks again when the HostCluster
// names the domains of hosts by another label. No host and no Machine changes then, and
// nothing else would ever wake it.
func TestWaitingMachineSeesTheFailureDomains(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	testenv.NewCluster(t, env.Client, namespace)
	startManager(t, optionsFor(namespace))
	agent := testenv.NewHost(t, env.Client, namespace, "h1", time.Now(), func(h *infrav1.Host) { h.Labels = map[string]string{"rack": "a"} })
	machine := testenv.NewMachine(t, env.Client, namespace, "m1", func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Spec.FailureDomain = "a" })
	eventually(t, "the machine waits", func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		if !conditions.IsFalse(machine, infrav1.HostClaimedCondition) {
			return fmt.Errorf("%v", machine.Status.Conditions)
		}
		return nil
	})
	eventually(t, "the host can be claimed", func() error {
		if h := agent.Host(t); !conditions.IsTrue(h, infrav1.AvailableCondition) {
			return fmt.Errorf("%v", h.Status.Conditions)
		}
		return nil
	})
	agent.Heartbeat(t, time.Now())
	eventually(t, "the HostCluster has another label", func() error {
		hostCluster := &infrav1.HostCluster{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: testenv.ClusterName}, hostCluster); err != nil {
			return err
		}
		hostCluster.Spec.FailureDomainLabel = "rack"
		return env.Client.Update(t.Context(), hostCluster)
	})
	eventually(t, "the machine has the host", func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		if machine.Spec.ProviderID == "" {
			return fmt.Errorf("%v", conditions.Get(machine, infrav1.HostClaimedCondition))
		}
		return nil
	})
}
