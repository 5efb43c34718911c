package hostmachine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// nodeNotReadyGrace is how long a Node may be not ready before its machine is not, either:
// a reboot or a rollout of the network takes less.
const nodeNotReadyGrace = 5 * time.Minute

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
	r.judgeView(s, machine, view)
	if agent := conditions.Get(s.host, infrav1.AgentConnectedCondition); agent != nil && agent.Status == metav1.ConditionFalse {
		s.ailment = &waiting{host.ReasonDisconnected, fmt.Sprintf("Host %s: %s", s.host.Name, agent.Message)}
	}
	return true, nil
}

// judgeView says what is wrong with the Node, if anything is.
func (r *Reconciler) judgeView(s *scope, machine *clusterv1.Machine, view nodeView) {
	key := client.ObjectKeyFromObject(s.hostMachine)
	since := r.Clock.Now()
	if view != nodeUnseen {
		since = r.nodes.Since(key, view, since)
	}
	before := nodeAilment(s.hostMachine)
	switch view {
	case nodeUnseen:
		s.ailment = before
	case nodeDeleted:
		r.nodeDeleted(s, machine)
	case nodeReady:
		r.nodes.Forget(key)
	case nodeWithoutNetwork:
		s.requeueAfter = nodeNotReadyGrace
		if before != nil && before.reason == infrav1.NodeNotReadyReason {
			s.ailment = before
		}
	case nodeNotReady:
		left := since.Add(nodeNotReadyGrace).Sub(r.Clock.Now())
		switch {
		case before != nil && before.reason == infrav1.NodeNotReadyReason:
			s.ailment = before
		case left > 0:
			s.requeueAfter = left
		default:
			s.ailment = &waiting{infrav1.NodeNotReadyReason, fmt.Sprintf("The Node has not been ready for %s. Condition %s of Machine %s says why",
				nodeNotReadyGrace, clusterv1.MachineNodeReadyCondition, machine.Name)}
		}
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

// nodeDeleted reports a Node that went while its machine lives. A kubelet registers its
// Node once and never again, lest a host be a Node after its machine was replaced: so the
// machine has to be.
func (r *Reconciler) nodeDeleted(s *scope, machine *clusterv1.Machine) {
	m, node := s.hostMachine, machine.Status.NodeRef.Name
	if before := nodeAilment(m); before == nil || before.reason != infrav1.NodeDeletedReason {
		r.Recorder.Eventf(m, s.host, "Warning", infrav1.NodeDeletedReason, "Observe", "Node %s was deleted while the machine lives", node)
	}
	next := "Delete the Machine to replace it"
	if conditions.Has(machine, clusterv1.MachineHealthCheckSucceededCondition) {
		next = "Its MachineHealthCheck decides what is done about it"
	}
	s.ailment = &waiting{infrav1.NodeDeletedReason, fmt.Sprintf("Node %s was deleted while the machine lives. %s", node, next)}
}
