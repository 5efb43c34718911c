package host

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// recordOf returns what the agent has on record; the zero value when it reported nothing.
func recordOf(h *infrav1.Host) infrav1.HostRecord {
	return ptr.Deref(h.Status.Record, infrav1.HostRecord{})
}

// RecordedGeneration is the newest claimGeneration that the agent is known to have acted for, be it
// for another management cluster or for an earlier Host of the machine.
func RecordedGeneration(h *infrav1.Host) int64 { return ptr.Deref(recordOf(h).ClaimGeneration, 0) }

// NextGeneration is that of the next claim or manual reset of the host: one that its agent does not refuse.
func NextGeneration(h *infrav1.Host) int64 {
	return max(h.Spec.ClaimGeneration, RecordedGeneration(h)) + 1
}

// holdsPreviousClaim says whether the agent has a node on record, or remains of one, that no confirmation by an
// operator for this very Host is about.
func holdsPreviousClaim(h *infrav1.Host) bool {
	state := recordOf(h).State
	return state != "" && state != infrav1.HostRecordClean && !clearedByHand(h)
}

// clearedByHand says whether an operator confirmed the host clean of the claim that the agent acted for last, or
// a later one.
func clearedByHand(h *infrav1.Host) bool {
	cleared := h.Spec.ClearedGeneration
	return cleared != nil && *cleared == h.Spec.ClaimGeneration && *cleared >= RecordedGeneration(h)
}

// Clear records that an operator confirmed the host clean: for the claim that it had last here, and
// for what the agent has on record.
func Clear(h *infrav1.Host) {
	h.Spec.ClaimGeneration = max(h.Spec.ClaimGeneration, RecordedGeneration(h))
	h.Spec.ClearedGeneration = ptr.To(h.Spec.ClaimGeneration)
}

// Confirmation says what becomes of an operator's confirmation that a host is clean.
type Confirmation int

const (
	// ConfirmationAccepted lifts the quarantine.
	ConfirmationAccepted Confirmation = iota
	// ConfirmationPending came before it is known whether the host is quarantined.
	ConfirmationPending
	// ConfirmationRefused has no meaning here.
	ConfirmationRefused
)

// EvaluateConfirmation decides on ClearQuarantineAnnotation, and says why it is refused. One that names a
// claimGeneration is for no other.
func EvaluateConfirmation(h *infrav1.Host, value string) (answer Confirmation, why string) {
	if generation, err := strconv.ParseInt(value, 10, 64); err == nil && generation != h.Spec.ClaimGeneration {
		return ConfirmationRefused, fmt.Sprintf("it is for claim generation %d, and the host is at %d", generation, h.Spec.ClaimGeneration)
	}
	state := StateOf(h)
	switch {
	case state.Quarantined():
		return ConfirmationAccepted, ""
	case h.Spec.Claim == nil && !Releasing(h) && ProvedClean(h):
		return ConfirmationRefused, "the host is clean, and not quarantined"
	case state.Phase == infrav1.HostPhaseEnrolling, state.Phase == infrav1.HostPhaseResetting:
		return ConfirmationPending, ""
	default:
		return ConfirmationRefused, fmt.Sprintf("the host is not quarantined: it is %s", state.Phase)
	}
}

// RefusedError says why a request to reset or to release a host is refused.
type RefusedError struct{ Why string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Why }

func refuseRequest(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// RequestManualReset has the agent reset a host that no machine has: one that is free, or whose HostMachine is
// gone or leaves. id tells the request from earlier ones. The generation is one that the agent does not
// refuse, by what it has reported; of an agent that has another one on record since, it is refused.
func RequestManualReset(h *infrav1.Host, machine *infrav1.HostMachine, id string) error {
	switch {
	case Adopting(h):
		return refuseRequest("HostMachine %s adopts the node on the host; delete its Machine first", h.Spec.Claim.MachineName)
	case h.Spec.Claim != nil && machine != nil && machine.DeletionTimestamp.IsZero() && !Releasing(h):
		return refuseRequest("HostMachine %s of Cluster %s has the host; delete its Machine, which resets the host", machine.Name, h.Spec.Claim.ClusterName)
	case h.Spec.Claim == nil && !Releasing(h) && ProvedClean(h):
		return refuseRequest("the host is clean and free")
	}
	policy := h.Spec.ResetPolicy
	if Releasing(h) {
		policy = h.Spec.Desired.ResetPolicy
	}
	if policy == "" || policy == infrav1.ResetPolicyManual {
		policy = infrav1.ResetPolicyKubeadm
	}
	if recorded := RecordedGeneration(h); recorded > h.Spec.ClaimGeneration || recorded == h.Spec.ClaimGeneration && foreignClaim(h) {
		h.Spec.ClaimGeneration = NextGeneration(h)
	}
	desired := &infrav1.HostDesired{Phase: infrav1.HostDesiredReset, OperationID: "reset-" + id, ResetPolicy: policy}
	if Releasing(h) {
		desired.ClusterDeleting = h.Spec.Desired.ClusterDeleting
	}
	h.Spec.Desired = desired
	return nil
}

// foreignClaim says whether the agent has another claim on record than the Host.
func foreignClaim(h *infrav1.Host) bool {
	id := recordOf(h).ClaimID
	return h.Spec.Claim != nil && id != "" && id != h.Spec.Claim.ClaimID
}

// GiveBack makes a free host that of a HostMachine again, whose node it is by the agent's journal. The
// agent sees that it is the node of that claim already, and does nothing to it.
func GiveBack(h *infrav1.Host, machine *infrav1.HostMachine, cluster string) error {
	record := recordOf(h)
	namespace, name, claim, _ := ParseProviderID(machine.Spec.ProviderID)
	switch {
	case h.Spec.Claim != nil && h.Spec.Claim.ClaimID == machine.Spec.ClaimID:
		return nil
	case h.Spec.Claim != nil:
		return refuseRequest("HostMachine %s of Cluster %s has claimed the host", h.Spec.Claim.MachineName, h.Spec.Claim.ClusterName)
	case record.State != infrav1.HostRecordNode || record.ClaimID == "":
		return refuseRequest("the agent does not say that the host is the node of a claim")
	case machine.Spec.ClaimID != record.ClaimID:
		return refuseRequest("HostMachine %s is of claim %s, and the host is the node of claim %s", machine.Name, machine.Spec.ClaimID, record.ClaimID)
	case !machine.DeletionTimestamp.IsZero():
		return refuseRequest("HostMachine %s is being deleted; `slipway host reset` resets the host", machine.Name)
	case namespace != h.Namespace || name != h.Name || claim != record.ClaimID:
		return refuseRequest("HostMachine %s has the provider ID %s, which is not of this host", machine.Name, machine.Spec.ProviderID)
	}
	h.Spec.Claim = &infrav1.HostClaim{MachineName: machine.Name, ClusterName: cluster, ClaimID: record.ClaimID}
	if _, of := machine.Labels[clusterv1.MachineControlPlaneLabel]; of {
		h.Spec.Claim.ControlPlane = ptr.To(true)
	}
	h.Spec.ClaimGeneration = max(h.Spec.ClaimGeneration, RecordedGeneration(h))
	desired := &infrav1.HostDesired{
		Phase: infrav1.HostDesiredBootstrapped, OperationID: BootstrapOperationID(record.ClaimID), ProviderID: machine.Spec.ProviderID,
	}
	RecordBootstrap(desired)
	h.Spec.Desired = desired
	return nil
}

// recordLostState is that of a free host whose agent does not know what was done to it.
func recordLostState(h *infrav1.Host) State {
	return State{infrav1.HostPhaseQuarantined, infrav1.HostRecordLostReason,
		fmt.Sprintf("The agent does not know what was done to the host: %s. %s%s. %s", recordOf(h).Lost, found(h), asNode(h), failedReset(h)+waysOut(h))}
}

// previousClaimState is that of a free host whose agent has a claim on record that the Host does not have.
func previousClaimState(h *infrav1.Host) State {
	return State{infrav1.HostPhaseQuarantined, infrav1.HostPreviousClaimReason,
		fmt.Sprintf("By the agent's journal %s, which this Host does not have; was it deleted and made again, or the management cluster restored? %s%s", asNode(h), failedReset(h), waysOut(h))}
}

// failedReset is what the last reset of the host ended with, whichever Host it was requested for: what it
// names is still there.
func failedReset(h *infrav1.Host) string {
	op := h.Status.ObservedOperation
	if op == nil || op.Phase != infrav1.HostDesiredReset || op.State != infrav1.OperationFailed {
		return ""
	}
	return "Its last reset failed. " + FailureMessage(op) + ". "
}

func asNode(h *infrav1.Host) string {
	record := recordOf(h)
	claim := "a previous claim"
	if record.ClaimID != "" {
		claim = "claim " + record.ClaimID
	}
	switch record.State {
	case infrav1.HostRecordNode:
		return "the host is the node of " + claim
	case infrav1.HostRecordRemains:
		return "the host has what is left of " + claim
	default:
		return "nothing of a node is on record"
	}
}

func found(h *infrav1.Host) string {
	if len(h.Status.Residue) == 0 {
		return "By what is on it, "
	}
	return "It found " + residue(h) + "; "
}

// waysOut are the commands that end a quarantine for what is on record.
func waysOut(h *infrav1.Host) string {
	at := fmt.Sprintf("%s -n %s", h.Name, h.Namespace)
	adopt := ""
	if recordOf(h).State == infrav1.HostRecordNode {
		adopt = fmt.Sprintf("`slipway host adopt %s` gives it back to its Machine, with --cluster CLUSTER to a new one if that is gone; ", at)
	}
	return fmt.Sprintf("%s`slipway host reset %s` resets it; or clean it by hand, then confirm that it is clean: `slipway host clear-quarantine %s`", adopt, at, at)
}

// recordKept is nil while the agent knows what was done to the host.
func recordKept(h *infrav1.Host) *metav1.Condition {
	lost := recordOf(h).Lost
	if lost == "" {
		return nil
	}
	message := "The agent does not know what was done to the host: " + lost
	if h.Spec.Claim != nil {
		message += ". What runs on it runs on. Once its Machine is deleted, the reset takes off what it finds of a node, and the host stays quarantined until you have looked at the rest: " + waysOut(h)
	} else {
		message += ". " + waysOut(h)
	}
	return &metav1.Condition{Type: infrav1.RecordKeptCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostJournalLostReason, Message: message}
}
