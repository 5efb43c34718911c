package host

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// MovedAway says whether clusterctl deletes the object because it stands in another
// management cluster now. Such a deletion means nothing for the host.
func MovedAway(o metav1.Object) bool {
	_, ok := o.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return ok
}

// Restored says whether an operator confirmed that this Host, the copy of a backup, is the only
// one that remains.
func Restored(h *infrav1.Host) bool {
	return h.UID != "" && h.Annotations[infrav1.RestoredAnnotation] == string(h.UID)
}

// BlocksMove says whether the host holds up `clusterctl move`.
func BlocksMove(h *infrav1.Host) bool {
	_, ok := h.Annotations[clusterctlv1.BlockMoveAnnotation]
	return ok
}

// BlockMove makes the host hold up `clusterctl move`, or no longer.
func BlockMove(h *infrav1.Host, block bool) {
	if !block {
		delete(h.Annotations, clusterctlv1.BlockMoveAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, clusterctlv1.BlockMoveAnnotation, "")
}

// InFlight says whether the agent has an operation before it that must not be
// interrupted: it would be carried out while nobody follows.
func InFlight(h *infrav1.Host) bool {
	if h.Spec.Claim == nil || h.Spec.Desired == nil {
		return false
	}
	switch StateOf(h).Phase {
	case infrav1.HostPhaseRunning, infrav1.HostPhaseFailed, infrav1.HostPhaseQuarantined:
		return false
	default:
		return !ResetProved(h)
	}
}

// MoveFacts are what ReadyToMove is judged by, besides the Host itself.
type MoveFacts struct {
	// Connected is true while the agent's heartbeat is fresh.
	Connected bool
	// Told is true once the agent knows who signs hand-overs. One that was connected
	// for the last time before there was a key does not, and trusts none.
	Told bool
	// HandOver is what the operator requested; nil for nothing.
	HandOver *HandOver
	// Problem tells why the hand-over is not signed.
	Problem string
	// Report is the agent's last answer.
	Report HandOverReport
}

// ReadyToMove judges whether a claimed host may be moved to another management
// cluster: its agent is idle and has all it needs to go there. A host that is away does
// not block a move that hands hosts over: it finds the hand-over when it returns. One
// that hands nobody over would strand it, so it is refused, whether anybody is there to
// answer or not.
func ReadyToMove(h *infrav1.Host, f MoveFacts) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.ReadyToMoveCondition, Status: metav1.ConditionFalse, ObservedGeneration: h.Generation}
	yes := func(reason, message string) metav1.Condition {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reason, message
		return condition
	}
	no := func(reason, message string) metav1.Condition {
		condition.Reason, condition.Message = reason, message
		return condition
	}
	switch {
	case f.HandOver != nil && (f.Problem != "" || !f.HandOver.ByHand() && len(f.HandOver.Signature) == 0):
		// Those that are away would not follow either.
		return no(infrav1.HostHandOverNotSignedReason, "Secret "+infrav1.HandOverSecretName+" is not signed: "+f.Problem)
	case f.HandOver == nil && !f.Connected:
		return no(infrav1.HostNoHandOverReason, "The agent is not connected, and will not find out where the host moves to. "+handOverHowTo)
	case !f.Connected && !f.HandOver.ByHand() && !Approved(h):
		return yes(infrav1.HostHandOverByHandReason, "The agent is not connected, and the host is not approved: it may not read the hand-over when it returns. "+
			"Approve it before the move ("+ApproveCommand(h)+"), or bring it a bootstrap kubeconfig of the target then")
	case !f.Connected && !f.Told:
		return yes(infrav1.HostHandOverByHandReason, "The agent is not connected, and was never told who signs hand-overs: it will not follow by itself. "+
			"Switch the host on before the move, or bring it a bootstrap kubeconfig of the target when it returns")
	case !f.Connected:
		return yes(infrav1.HostAgentNotConnectedReason, "The agent is not connected. It is handed over when it returns, as long as Secret "+
			infrav1.HandOverSecretName+" stays in this management cluster")
	case InFlight(h):
		return no(infrav1.HostOperationInProgressReason, "The agent is at work: "+StateOf(h).Message)
	case f.HandOver == nil:
		return no(infrav1.HostNoHandOverReason, "Nobody tells the agent where the host moves to. "+handOverHowTo)
	case f.HandOver.ByHand():
		return yes(infrav1.HostHandOverByHandReason, "The operator brings the agent to the target")
	case !Approved(h):
		return no(infrav1.HostHandOverPendingReason, "The host is not approved, so its agent may not read the hand-over. Approve it: "+ApproveCommand(h))
	case f.Report.Revision != f.HandOver.Revision():
		return no(infrav1.HostHandOverPendingReason, "The agent has not prepared the hand-over yet")
	case f.Report.Waiting != "":
		return no(infrav1.HostHandOverPendingReason, "The agent cannot take the hand-over: "+f.Report.Waiting)
	default:
		return yes(infrav1.HostReadyToMoveReason, "The agent goes to the target as soon as the host is there")
	}
}

// Leaving says whether a Host goes to another namespace once it is free, as
// spec.assignedNamespace says.
func Leaving(h *infrav1.Host) bool {
	return h.Spec.AssignedNamespace != "" && h.Spec.AssignedNamespace != h.Namespace
}

// Successor says whether a Host is the one that the agent of h goes over to: of the same
// name and key, in the namespace that h is assigned to.
func Successor(h, other *infrav1.Host) bool {
	return Leaving(h) && other.Namespace == h.Spec.AssignedNamespace && other.Name == h.Name &&
		h.Spec.HostID != "" && other.Spec.HostID == h.Spec.HostID
}

// leavingState is that of a free host that leaves.
func leavingState(h *infrav1.Host) State {
	return State{infrav1.HostPhaseAvailable, infrav1.HostAssignedReason, fmt.Sprintf("spec.assignedNamespace gives the host to namespace %s: its agent goes over to Host %s/%s, "+
		"which must have the same spec.hostID, and `slipway host assign %s -n %s --to %s` deletes this Host then",
		h.Spec.AssignedNamespace, h.Spec.AssignedNamespace, h.Name, h.Name, h.Namespace, h.Spec.AssignedNamespace)}
}
