package hostmachine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// provisionedWorld has one machine that runs, and its agent.
type provisionedWorld struct {
	*world
	key      client.ObjectKey
	agent    *testenv.Agent
	recorder *events.FakeRecorder
}

func newProvisionedWorld(t *testing.T, mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) *provisionedWorld {
	t.Helper()
	w := &provisionedWorld{world: newWorld(t), recorder: events.NewFakeRecorder(100)}
	w.Recorder = w.recorder
	w.agent = w.host("host-1")
	w.key = w.machine("m1", mutate...)
	w.reconcile(w.key)
	w.agent.Obey(t, w.clock.Now())
	w.connected(true)
	w.othersReady(1)
	if m, _ := w.reconcile(w.key); !conditions.IsTrue(m, clusterv1.ReadyCondition) {
		t.Fatalf("not ready at first: %+v", m.Status.Conditions)
	}
	return w
}

// connected is what the Host controller says of the agent.
func (w *provisionedWorld) connected(yes bool) {
	w.t.Helper()
	h := w.agent.Host(w.t)
	condition := metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: "HeartbeatFresh"}
	if !yes {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "HeartbeatStale", "The agent was last heard of long ago"
	}
	conditions.Set(h, condition)
	if err := env.Client.Status().Update(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
}

// othersReady is what core says of the workers of the cluster.
func (w *provisionedWorld) othersReady(n int32) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: testenv.ClusterName}, cluster); err != nil {
		w.t.Fatal(err)
	}
	cluster.Status.Workers = &clusterv1.WorkersStatus{ReadyReplicas: ptr.To(n)}
	if err := env.Client.Status().Update(context.Background(), cluster); err != nil {
		w.t.Fatal(err)
	}
}

// coreSays lets core's Machine tell of its Node.
func (w *provisionedWorld) coreSays(changed ...metav1.Condition) {
	w.t.Helper()
	machine := &clusterv1.Machine{}
	if err := env.Client.Get(context.Background(), w.key, machine); err != nil {
		w.t.Fatal(err)
	}
	machine.Status.NodeRef.Name = "host-1"
	for _, c := range changed {
		conditions.Set(machine, c)
	}
	if err := env.Client.Status().Update(context.Background(), machine); err != nil {
		w.t.Fatal(err)
	}
}

func (w *provisionedWorld) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// wantReady checks Ready, which is true when reason is empty, and that provisioned stays.
func (w *provisionedWorld) wantReady(reason, message string) (*infrav1.HostMachine, ctrl.Result) {
	w.t.Helper()
	m, result := w.reconcile(w.key)
	if reason == "" {
		if !conditions.IsTrue(m, clusterv1.ReadyCondition) {
			w.t.Errorf("not Ready: %+v", conditions.Get(m, clusterv1.ReadyCondition))
		}
	} else {
		if !conditions.IsFalse(m, clusterv1.ReadyCondition) {
			w.t.Errorf("Ready, want %s", reason)
		}
		wantCondition(w.t, m, clusterv1.ReadyCondition, reason, message)
	}
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) {
		w.t.Error("provisioned was taken back")
	}
	return m, result
}

func node(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: status, Reason: reason, Message: "as the Node says"}
}

var (
	readyNode    = node(metav1.ConditionTrue, clusterv1.MachineNodeReadyReason)
	notReadyNode = node(metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason)
	silentNode   = node(metav1.ConditionUnknown, clusterv1.MachineNodeReadyUnknownReason)
	unseenNode   = node(metav1.ConditionUnknown, clusterv1.MachineNodeConnectionDownReason)
	deletedNode  = node(metav1.ConditionFalse, clusterv1.MachineNodeDeletedReason)
)

func TestReadyFallsWithTheNode(t *testing.T) {
	for name, says := range map[string]metav1.Condition{"not ready": notReadyNode, "its kubelet is gone": silentNode} {
		t.Run(name, func(t *testing.T) {
			w := newProvisionedWorld(t)
			// How long is counted from when it was seen, whatever the clock of the Node says.
			says.LastTransitionTime = metav1.NewTime(w.clock.Now().Add(-time.Hour))
			w.coreSays(says)
			if _, result := w.wantReady("", ""); result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Minute {
				t.Errorf("looks again after %s", result.RequeueAfter)
			}
			w.pass(4 * time.Minute)
			w.wantReady("", "")
			w.pass(2 * time.Minute)
			w.wantReady(infrav1.NodeNotReadyReason, "`slipway host logs host-1 kubelet -n ")
			// What was known stands while core cannot see, also after a restart.
			w.coreSays(unseenNode)
			w.Reconciler = w.reconciler(env.Client)
			w.wantReady(infrav1.NodeNotReadyReason, "`slipway host logs host-1 kubelet -n ")
			w.coreSays(says)
			w.wantReady(infrav1.NodeNotReadyReason, "`slipway host logs host-1 kubelet -n ")
			w.coreSays(readyNode)
			w.wantReady("", "")
			w.pass(time.Hour)
			w.coreSays(says)
			w.wantReady("", "")
		})
	}
}

// A cluster waits for its network plugin as long as it takes; then its Nodes have as long
// as any others to become ready.
func TestMissingNetworkIsNoFailureOfAMachine(t *testing.T) {
	w := newProvisionedWorld(t)
	w.othersReady(0)
	w.coreSays(notReadyNode)
	for range 3 {
		_, result := w.wantReady("", "")
		if result.RequeueAfter <= 0 {
			t.Error("never looks again")
		}
		w.pass(time.Hour)
	}
	w.othersReady(1)
	w.wantReady("", "")
	w.pass(6 * time.Minute)
	w.wantReady(infrav1.NodeNotReadyReason, "")
	// A network that fails for all does not make it well.
	w.othersReady(0)
	w.wantReady(infrav1.NodeNotReadyReason, "")
}

func TestReadyFallsWithTheAgent(t *testing.T) {
	w := newProvisionedWorld(t)
	w.coreSays(readyNode)
	w.connected(false)
	w.wantReady(infrav1.HostAgentNotConnectedReason, "Host host-1: The agent was last heard of long ago")
	w.connected(true)
	w.wantReady("", "")
}

// A kubelet registers its Node when it starts, and only then: the host of a Node that
// somebody deleted is rebooted, once for each time.
func TestDeletedNodeIsBroughtBack(t *testing.T) {
	w := newProvisionedWorld(t)
	for n := int32(1); n <= 2; n++ {
		w.coreSays(deletedNode)
		m, result := w.wantReady(infrav1.NodeDeletedReason, "Node host-1 was deleted while the machine lives. The host will be rebooted")
		if ptr.Deref(m.Spec.Reboots, 0) != n-1 || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
			t.Errorf("%d reboots, again after %s: who deleted the Node may be about to delete the Machine", ptr.Deref(m.Spec.Reboots, 0), result.RequeueAfter)
		}
		w.wantReady(infrav1.NodeDeletedReason, "")
		if got := w.events(infrav1.NodeDeletedReason); got != 1 {
			t.Errorf("%d events of one deletion", got)
		}

		w.pass(2 * time.Minute)
		w.connected(false)
		if m, _ = w.wantReady(infrav1.HostAgentNotConnectedReason, ""); ptr.Deref(m.Spec.Reboots, 0) != n-1 {
			t.Error("rebooted while its agent is away")
		}
		w.connected(true)
		m, _ = w.wantReady(infrav1.NodeDeletedReason, "The host is rebooted")
		w.events(infrav1.NodeDeletedReason)
		if ptr.Deref(m.Spec.Reboots, 0) != n || w.agent.Host(t).Spec.Desired.Phase != infrav1.HostDesiredRebooted {
			t.Fatalf("%d reboots, host asked for %s", ptr.Deref(m.Spec.Reboots, 0), w.agent.Host(t).Spec.Desired.Phase)
		}
		w.pass(time.Hour)
		w.agent.Obey(t, w.clock.Now())
		w.Reconciler = w.reconciler(env.Client)
		w.Recorder = w.recorder
		w.wantReady(infrav1.NodeDeletedReason, "delete the Machine")
		w.pass(time.Hour)
		if m, _ = w.wantReady(infrav1.NodeDeletedReason, ""); ptr.Deref(m.Spec.Reboots, 0) != n {
			t.Errorf("%d reboots for one deletion", ptr.Deref(m.Spec.Reboots, 0))
		}

		w.coreSays(readyNode)
		if m, _ = w.wantReady("", ""); m.Annotations[infrav1.NodeDeletedRebootAnnotation] != "" {
			t.Errorf("annotations %v", m.Annotations)
		}
	}
}

// events counts those of a reason that were recorded since it was last asked.
func (w *provisionedWorld) events(reason string) (n int) {
	for {
		select {
		case event := <-w.recorder.Events:
			if strings.Contains(event, reason) {
				n++
			}
		default:
			return n
		}
	}
}

// Who else decides about a machine is left to decide; a control plane is not made whole by
// a kubelet that registers again; and a Node that goes with its Machine is no failure.
func TestDeletedNodeIsLeftToOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		machine func(*clusterv1.Machine, *infrav1.HostMachine)
		more    []metav1.Condition
		leaves  bool
		want    string
	}{
		"a MachineHealthCheck watches": {
			more: []metav1.Condition{{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: "Succeeded"}},
			want: "Its MachineHealthCheck decides",
		},
		"control plane": {
			machine: func(m *clusterv1.Machine, _ *infrav1.HostMachine) {
				m.Labels = map[string]string{clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachineControlPlaneLabel: ""}
			},
			want: "Delete the Machine to replace it",
		},
		"its Machine leaves": {
			machine: func(m *clusterv1.Machine, _ *infrav1.HostMachine) { m.Finalizers = []string{"test.slipway.dev/drain"} },
			leaves:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.machine == nil {
				tc.machine = func(*clusterv1.Machine, *infrav1.HostMachine) {}
			}
			w := newProvisionedWorld(t, tc.machine)
			if tc.leaves {
				if err := env.Client.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.key.Name}}); err != nil {
					t.Fatal(err)
				}
			}
			w.coreSays(append(tc.more, deletedNode)...)
			reason := infrav1.NodeDeletedReason
			if tc.leaves {
				reason = ""
			}
			w.wantReady(reason, tc.want)
			w.pass(time.Hour)
			if m, _ := w.wantReady(reason, tc.want); m.Spec.Reboots != nil {
				t.Errorf("%d reboots", *m.Spec.Reboots)
			}
		})
	}
}

// What an error kept from being seen makes no condition fall.
func TestReadyStaysAfterAnError(t *testing.T) {
	w := newProvisionedWorld(t)
	w.Client = interceptor.NewClient(env.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*infrav1.HostList); ok {
				return errors.New("no hosts today")
			}
			return c.List(ctx, list, options...)
		},
	})
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key}); err == nil {
		t.Fatal("the error is swallowed")
	}
	if m := w.get(w.key); !conditions.IsTrue(m, clusterv1.ReadyCondition) || !conditions.IsTrue(m, infrav1.HostClaimedCondition) {
		t.Errorf("conditions fell: %+v", m.Status.Conditions)
	}
}
