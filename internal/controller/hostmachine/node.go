package hostmachine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/text"
)

const (
	// nodeNotReadyGrace is how long a Node may be not ready before its machine is not,
	// either: a reboot or a rollout of the network takes less.
	nodeNotReadyGrace = 5 * time.Minute
	// nodeDeletedGrace is how long a Node may be gone before its host is rebooted: who
	// deleted it on purpose may be about to delete the Machine, too.
	nodeDeletedGrace = time.Minute
)

// nodeView is what can be said of a Node.
type nodeView int

const (
	// nodeUnseen: core cannot see the Node, or waits for it. What was known stands.
	nodeUnseen nodeView = iota
	nodeReady
	// nodeNotReady: it is not, and that is the machine's own affair.
	nodeNotReady
	// nodeWithoutNetwork: its kubelet reports, and no other Node of the cluster is
	// ready, as long as there is no network plugin. No machine is to blame for that.
	nodeWithoutNetwork
	// nodeDeleted: it was there, and its machine lives on without it.
	nodeDeleted
)

// viewNode reads what core's Machine tells: this controller has no way into the workload
// cluster.
func viewNode(machine *clusterv1.Machine, cluster *clusterv1.Cluster) nodeView {
	node := conditions.Get(machine, clusterv1.MachineNodeReadyCondition)
	switch {
	case node == nil:
		return nodeUnseen
	case node.Status == metav1.ConditionTrue:
		return nodeReady
	case node.Reason == clusterv1.MachineNodeDeletedReason:
		return nodeDeleted
	case node.Reason == clusterv1.MachineNodeReadyUnknownReason:
		// Its kubelet is silent.
		return nodeNotReady
	case node.Reason != clusterv1.MachineNodeNotReadyReason:
		return nodeUnseen
	case anyReady(cluster):
		return nodeNotReady
	default:
		return nodeWithoutNetwork
	}
}

// anyReady says whether a machine of the cluster is ready, and with it its Node.
func anyReady(cluster *clusterv1.Cluster) bool {
	plane, workers := cluster.Status.ControlPlane, cluster.Status.Workers
	return (plane != nil && ptr.Deref(plane.ReadyReplicas, 0) > 0) || (workers != nil && ptr.Deref(workers.ReadyReplicas, 0) > 0)
}

// observeNode looks at the agent and the Node of a machine that was provisioned.
func (r *Reconciler) observeNode(ctx context.Context, s *scope) (bool, error) {
	if !ptr.Deref(s.hostMachine.Status.Initialization.Provisioned, false) {
		return true, nil
	}
	machine, err := util.GetOwnerMachine(ctx, r.Client, s.hostMachine.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get the Machine of HostMachine %s: %w", s.hostMachine.Name, err)
	}
	view := nodeUnseen
	// Nodes go with their machines and clusters.
	if err == nil && machine != nil && machine.DeletionTimestamp.IsZero() && s.cluster != nil && s.cluster.DeletionTimestamp.IsZero() {
		view = viewNode(machine, s.cluster)
	}
	if err := r.judgeView(ctx, s, machine, view); err != nil {
		return false, err
	}
	if agent := conditions.Get(s.host, infrav1.AgentConnectedCondition); agent != nil && agent.Status == metav1.ConditionFalse {
		s.ailment = &waiting{infrav1.HostMachineAgentNotConnectedReason, fmt.Sprintf("Host %s: %s", s.host.Name, agent.Message)}
	}
	return true, nil
}

// judgeView says what is wrong with the Node, if anything is, and heals what it can.
func (r *Reconciler) judgeView(ctx context.Context, s *scope, machine *clusterv1.Machine, view nodeView) error {
	key := client.ObjectKeyFromObject(s.hostMachine)
	switch view {
	case nodeUnseen:
		s.ailment = nodeAilment(s.hostMachine)
		return nil
	case nodeDeleted:
		return r.nodeDeleted(ctx, s, machine, r.nodes.Since(key, view, r.Clock.Now()))
	case nodeReady:
		r.traceNode(ctx, s, machine)
		r.nodes.Forget(key)
	case nodeWithoutNetwork, nodeNotReady:
		r.nodeNotReady(s, machine, view, r.nodes.Since(key, view, r.Clock.Now()))
	}
	return r.nodeIsBack(ctx, s)
}

// nodeNotReady reports a Node that is there and has not been ready for long.
func (r *Reconciler) nodeNotReady(s *scope, machine *clusterv1.Machine, view nodeView, since time.Time) {
	left := since.Add(nodeNotReadyGrace).Sub(r.Clock.Now())
	before := nodeAilment(s.hostMachine)
	switch {
	case before != nil && before.reason == infrav1.NodeNotReadyReason:
		s.ailment = before
	case view == nodeWithoutNetwork:
		s.requeueAfter = nodeNotReadyGrace
	case left > 0:
		s.requeueAfter = left
	default:
		node := conditions.Get(machine, clusterv1.MachineNodeReadyCondition)
		s.ailment = &waiting{infrav1.NodeNotReadyReason, fmt.Sprintf("Node %s is not ready since %s: %s. Read the kubelet's log: `slipway host logs %s kubelet -n %s`",
			machine.Status.NodeRef.Name, node.LastTransitionTime.UTC().Format(time.RFC3339), text.OneLine(node.Message), s.host.Name, s.host.Namespace)}
	}
}

// nodeAilment is what was wrong with the Node when the machine was last looked at; nil when
// nothing was.
func nodeAilment(m *infrav1.HostMachine) *waiting {
	before := conditions.Get(m, clusterv1.ReadyCondition)
	if before == nil || before.Status != metav1.ConditionFalse || (before.Reason != infrav1.NodeNotReadyReason && before.Reason != infrav1.NodeDeletedReason) {
		return nil
	}
	return &waiting{before.Reason, before.Message}
}

// nodeDeleted reports a Node that went while its machine lives, and has a worker register
// again, which a kubelet does when it starts: its host is rebooted, once. The pods were
// lost with the Node. Who watches the machine by a MachineHealthCheck decides for himself;
// a control plane is more than its Node.
func (r *Reconciler) nodeDeleted(ctx context.Context, s *scope, machine *clusterv1.Machine, since time.Time) error {
	m, node := s.hostMachine, machine.Status.NodeRef.Name
	if before := nodeAilment(m); before == nil || before.reason != infrav1.NodeDeletedReason {
		r.Recorder.Eventf(m, s.host, "Warning", infrav1.NodeDeletedReason, "Observe", "Node %s was deleted while the machine lives", node)
	}
	left, reboot := since.Add(nodeDeletedGrace).Sub(r.Clock.Now()), false
	var next string
	_, rebooted := m.Annotations[infrav1.NodeDeletedRebootAnnotation]
	switch {
	case conditions.Has(machine, clusterv1.MachineHealthCheckSucceededCondition):
		next = "Its MachineHealthCheck decides what is done about it"
	case util.IsControlPlaneMachine(machine):
		next = "Delete the Machine to replace it"
	case rebooted:
		next = "The host is rebooted, so that its kubelet registers again. If that does not help, delete the Machine to replace it"
	default:
		next = "The host will be rebooted, so that its kubelet registers again"
		s.requeueAfter = max(left, 0)
		reboot = left <= 0
	}
	s.ailment = &waiting{infrav1.NodeDeletedReason, fmt.Sprintf("Node %s was deleted while the machine lives. %s", node, next)}
	if !reboot || host.StateOf(s.host).Phase != infrav1.HostPhaseRunning || !host.Connected(s.host) {
		return nil
	}
	return r.rebootForNode(ctx, s, node)
}

// rebootForNode requests the reboot. The annotation comes with the operation, so that a crash or
// a move never makes it two.
func (r *Reconciler) rebootForNode(ctx context.Context, s *scope, node string) error {
	reboots := ptr.Deref(s.hostMachine.Spec.Reboots, 0) + 1
	err := s.write(ctx, func(m *infrav1.HostMachine) {
		m.Spec.Reboots, m.Spec.RebootPolicy = ptr.To(reboots), infrav1.RebootImmediate
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.NodeDeletedRebootAnnotation, strconv.Itoa(int(reboots)))
	})
	if err != nil {
		return fmt.Errorf("request a reboot: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Rebooting a host whose Node was deleted", "Host", klog.KObj(s.host), "Node", klog.KRef("", node))
	return nil
}

// nodeIsBack lets another deletion of the Node cost another reboot.
func (r *Reconciler) nodeIsBack(ctx context.Context, s *scope) error {
	if _, rebooted := s.hostMachine.Annotations[infrav1.NodeDeletedRebootAnnotation]; !rebooted {
		return nil
	}
	err := s.write(ctx, func(m *infrav1.HostMachine) { delete(m.Annotations, infrav1.NodeDeletedRebootAnnotation) })
	if err != nil {
		return fmt.Errorf("note that the Node is back: %w", err)
	}
	return nil
}
