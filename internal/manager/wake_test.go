package manager_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
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
	poll.Until(t, "the machine waits", func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		if !conditions.IsFalse(machine, infrav1.HostClaimedCondition) {
			return fmt.Errorf("%v", machine.Status.Conditions)
		}
		return nil
	})
	poll.Until(t, "the host can be claimed", func() error {
		if h := agent.Host(t); !conditions.IsTrue(h, infrav1.AvailableCondition) {
			return fmt.Errorf("%v", h.Status.Conditions)
		}
		return nil
	})
	agent.Heartbeat(t, time.Now())
	poll.Until(t, "the HostCluster has another label", func() error {
		hostCluster := &infrav1.HostCluster{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: testenv.ClusterName}, hostCluster); err != nil {
			return err
		}
		hostCluster.Spec.FailureDomainLabel = "rack"
		return env.Client.Update(t.Context(), hostCluster)
	})
	poll.Until(t, "the machine has the host", func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
			return err
		}
		if machine.Spec.ProviderID == "" {
			return fmt.Errorf("%v", conditions.Get(machine, infrav1.HostClaimedCondition))
		}
		return nil
	})
}

// A machine that waits for a host says so no longer once its Cluster is deleted, which an alert
// and slipway doctor would take for a lack of hosts. Nothing else wakes a member of a pool.
func TestWaitingMachineSeesThatItsClusterGoes(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	cluster := testenv.NewCluster(t, env.Client, namespace)
	startManager(t, optionsFor(namespace))
	testenv.NewMachinePool(t, env.Client, namespace, "workers", 1)
	waits := func(reason string) func() error {
		return func() error {
			members := &infrav1.HostMachineList{}
			if err := env.Client.List(t.Context(), members, client.InNamespace(namespace)); err != nil {
				return err
			}
			if len(members.Items) == 0 {
				return errors.New("the pool has no member")
			}
			if got := conditions.Get(&members.Items[0], infrav1.HostClaimedCondition); got == nil || got.Reason != reason {
				return fmt.Errorf("HostClaimed is %v, want reason %s", got, reason)
			}
			return nil
		}
	}
	poll.Until(t, "the machine waits for a host", waits(infrav1.HostMachineNoHostFitsReason))
	testenv.DeleteHeldUp(t, env.Client, cluster)
	poll.Until(t, "the machine waits for its Cluster", waits(infrav1.HostMachineOwnerDeletingReason))
}

// A machine that waits because a MachinePool names the Node which its host was is tried again
// as soon as that no longer is so, whatever takes the place of the name: nothing else
// happens to a free host. Found by random faults: the pool named another Node instead.
func TestMachineIsTriedAgainOnceNoPoolNamesItsHost(t *testing.T) {
	testenv.Skip(t)
	for name, forget := range map[string]func(*testing.T, *clusterv1.MachinePool){
		"another Node is named": func(t *testing.T, p *clusterv1.MachinePool) { testenv.NameNodes(t, env.Client, p, "host-9") },
		"none is named":         func(t *testing.T, p *clusterv1.MachinePool) { testenv.NameNodes(t, env.Client, p) },
		"the MachinePool is deleted": func(t *testing.T, p *clusterv1.MachinePool) {
			if err := env.Client.Delete(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			testenv.NewCluster(t, env.Client, namespace)
			agent := testenv.NewHost(t, env.Client, namespace, "host-1", time.Now(), func(h *infrav1.Host) { h.Spec.ClaimGeneration = 1 })
			// The end of a Lease wakes all that wait, and so does that of the time after which a
			// MachineHealthCheck is told to pass over a Machine.
			beat(t, agent, 24*3600)
			unspared := func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: "by the test"}
			}
			machinePool, _ := testenv.NewMachinePool(t, env.Client, namespace, "workers", 0)
			testenv.NameNodes(t, env.Client, machinePool, "host-1")
			startManager(t, optionsFor(namespace))
			m := testenv.NewMachine(t, env.Client, namespace, "m1", unspared)
			poll.Until(t, "the machine waits for the MachinePool", func() error {
				if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
					return err
				}
				if got := conditions.GetMessage(m, infrav1.HostClaimedCondition); !strings.Contains(got, "MachinePool workers still names its former Node") {
					return fmt.Errorf("it says %q", got)
				}
				return nil
			})
			// what making the objects has set off is over
			time.Sleep(3 * time.Second)
			forget(t, machinePool)
			poll.Until(t, "the host is claimed", func() error {
				if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || m.Spec.ProviderID != "" {
					return err
				}
				return fmt.Errorf("it says %q", conditions.GetMessage(m, infrav1.HostClaimedCondition))
			})
		})
	}
}
