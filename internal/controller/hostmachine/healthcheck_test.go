package hostmachine_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// mark is what MachineHealthChecks are told of a Machine; "none" for nothing.
func (w *world) mark(key client.ObjectKey) string {
	w.t.Helper()
	if value, marked := w.owner(key).Annotations[clusterv1.MachineSkipRemediationAnnotation]; marked {
		return value
	}
	return "none"
}

func (w *world) owner(key client.ObjectKey) *clusterv1.Machine {
	w.t.Helper()
	machine := &clusterv1.Machine{}
	if err := env.Client.Get(context.Background(), key, machine); err != nil {
		w.t.Fatal(err)
	}
	return machine
}

func (w *world) expectMark(key client.ObjectKey, when, want string) {
	w.t.Helper()
	if got := w.mark(key); got != want {
		w.t.Errorf("%s: the Machine has the mark %q, want %q", when, got, want)
	}
}

// waitingMachine is one for which there is no host, and that has waited for a while.
func (w *world) waitingMachine(mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) client.ObjectKey {
	w.t.Helper()
	key := w.machine("m1", mutate...)
	// The API server stamps the Machine by its own clock, in whole seconds.
	w.clock.SetTime(w.owner(key).CreationTimestamp.Add(time.Second))
	_, result := w.reconcile(key)
	w.expectMark(key, "at first", marked(w.owner(key)))
	if foreign := marked(w.owner(key)) != "none"; !foreign && (result.RequeueAfter <= 0 || result.RequeueAfter > 20*time.Second) {
		w.t.Errorf("the waiting machine is looked at again after %s", result.RequeueAfter)
	}
	w.clock.Step(25 * time.Second)
	w.reconcile(key)
	return key
}

// marked is the mark that a machine was made with.
func marked(machine *clusterv1.Machine) string {
	if value, found := machine.Annotations[clusterv1.MachineSkipRemediationAnnotation]; found && value != infrav1.WaitingForHostMark {
		return value
	}
	return "none"
}

// A MachineHealthCheck counts the time without a Node from the creation of the Machine, so
// one that waits for a host would be deleted over and over, and one that got a host late in
// the middle of its bootstrap.
func TestWaitingMachineIsPassedOver(t *testing.T) {
	w := newWorld(t)
	key := w.waitingMachine()
	w.expectMark(key, "without a host", infrav1.WaitingForHostMark)

	agent := w.host("host-1")
	if _, result := w.reconcile(key); result.RequeueAfter <= 0 || result.RequeueAfter > 20*time.Minute {
		t.Errorf("looked at again after %s, though the host has 20 minutes", result.RequeueAfter)
	}
	w.expectMark(key, "in mid bootstrap", infrav1.WaitingForHostMark)

	agent.Obey(t, w.clock.Now())
	if m, _ := w.reconcile(key); !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		t.Fatalf("not provisioned: %+v", m.Status)
	}
	w.expectMark(key, "before core knows of the end of the bootstrap", infrav1.WaitingForHostMark)

	machine := w.owner(key)
	conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
	if err := env.Client.Status().Update(context.Background(), machine); err != nil {
		t.Fatal(err)
	}
	w.reconcile(key)
	w.expectMark(key, "from when core counts anew", "none")
}

// The API server stamps Machines by a clock of its own.
func TestWaitingMachineIsMarkedByAClockThatIsBehind(t *testing.T) {
	w := newWorld(t)
	key := w.machine("m1")
	w.clock.SetTime(w.owner(key).CreationTimestamp.Add(-time.Hour))
	if _, result := w.reconcile(key); result.RequeueAfter != 20*time.Second {
		t.Errorf("looked at again after %s, want 20s", result.RequeueAfter)
	}
}

// A machine in the place of one whose Cluster is being deleted would claim no host, either.
func TestLeavingMachineIsPassedOver(t *testing.T) {
	w := newWorld(t)
	l := leaver{w: w, key: w.machine("m1"), object: clusterOf(w)}
	l.begin()
	w.clock.SetTime(w.owner(l.key).CreationTimestamp.Add(time.Second))
	if _, result := w.reconcile(l.key); result.RequeueAfter != 19*time.Second {
		t.Errorf("looked at again after %s, want 19s", result.RequeueAfter)
	}
	w.expectMark(l.key, "at first", "none")
	w.clock.Step(21 * time.Second)
	w.reconcile(l.key)
	w.expectMark(l.key, "while its Cluster is being deleted", infrav1.WaitingForHostMark)
}

func TestMarkForHealthChecksEnds(t *testing.T) {
	t.Run("when the bootstrap fails", func(t *testing.T) {
		w := newWorld(t)
		key := w.waitingMachine()
		agent := w.host("host-1")
		w.reconcile(key)
		agent.FailNext = "kubeadm join failed"
		agent.Obey(t, w.clock.Now())
		w.reconcile(key)
		w.expectMark(key, "after a failure", "none")
	})
	t.Run("when the host does not come to an end", func(t *testing.T) {
		w := newWorld(t)
		key := w.waitingMachine()
		w.host("host-1")
		w.reconcile(key)
		w.clock.Step(19 * time.Minute)
		w.reconcile(key)
		w.expectMark(key, "19 minutes after the claim", infrav1.WaitingForHostMark)
		w.clock.Step(2 * time.Minute)
		w.reconcile(key)
		w.expectMark(key, "21 minutes after the claim", "none")
	})
	t.Run("not when somebody else set it", func(t *testing.T) {
		w := newWorld(t)
		key := w.waitingMachine(func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
			m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: "debugging"}
		})
		w.expectMark(key, "without a host", "debugging")
		agent := w.host("host-1")
		w.reconcile(key)
		agent.FailNext = "kubeadm join failed"
		agent.Obey(t, w.clock.Now())
		w.reconcile(key)
		w.expectMark(key, "after a failure", "debugging")
	})
	t.Run("never begins with a host", func(t *testing.T) {
		w := newWorld(t)
		w.host("host-1")
		key := w.machine("m1")
		w.reconcile(key)
		w.clock.Step(time.Hour)
		w.reconcile(key)
		w.expectMark(key, "an hour after the claim", "none")
	})
}

// The next machine of a control plane may be in another rack: that of a worker is not.
func TestMachineThatAnotherWouldHelpIsNotPassedOver(t *testing.T) {
	for name, tc := range map[string]struct {
		controlPlane, usable bool
		want                 string
	}{
		"a control plane with a free host elsewhere":            {true, true, "none"},
		"a control plane that may not use the domain elsewhere": {true, false, infrav1.WaitingForHostMark},
		"a worker with a free host elsewhere":                   {false, true, infrav1.WaitingForHostMark},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			hostCluster := &infrav1.HostCluster{}
			if err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: testenv.ClusterName}, hostCluster); err != nil {
				t.Fatal(err)
			}
			hostCluster.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "full", ControlPlane: ptr.To(!tc.usable)}, {Name: "other", ControlPlane: ptr.To(tc.usable)}}
			if err := env.Client.Status().Update(context.Background(), hostCluster); err != nil {
				t.Fatal(err)
			}
			w.host("host-1", func(h *infrav1.Host) { h.Spec.FailureDomain = "other" })
			key := w.waitingMachine(func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				m.Spec.FailureDomain = "full"
				if tc.controlPlane {
					m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
				}
			})
			w.expectMark(key, "while it waits", tc.want)
		})
	}
}
