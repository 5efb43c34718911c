package host

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// State is the phase of a host with the reason for it.
type State struct {
	Phase infrav1.HostPhase
	// Reason is a CamelCase word; it becomes the reason of a condition.
	Reason string
	// Message tells what is the case and, when something is wrong, what to do.
	Message string
}

// Quarantined says whether the host waits for an operator to clean it.
func (s State) Quarantined() bool { return s.Phase == infrav1.HostPhaseQuarantined }

// StateOf computes the phase of a host from its spec and from what its agent
// reported; the phase in status is never read.
func StateOf(h *infrav1.Host) State {
	switch {
	case Releasing(h):
		return releasingState(h)
	case h.Spec.Claim == nil:
		return freeState(h)
	default:
		return claimedState(h)
	}
}

func freeState(h *infrav1.Host) State {
	switch {
	case ProvedClean(h) && HookPending(h):
		return State{infrav1.HostPhaseResetting, infrav1.HostWaitingForHookReason,
			"The hook AfterHostRelease has not passed; condition " + infrav1.ReleaseHooksPassedCondition + " tells why"}
	case ProvedClean(h) && !Approved(h):
		return notApproved(h)
	case ProvedClean(h) && !InventoryReported(h):
		return State{infrav1.HostPhaseEnrolling, infrav1.HostInventoryNotReportedReason,
			"The agent has not reported its inventory yet: architecture and capacity of the host are not known. If that lasts, the log of slipway-agent on the host tells why"}
	case ProvedClean(h):
		return State{infrav1.HostPhaseAvailable, infrav1.HostAvailableReason, ""}
	case h.Status.BootID == "" && h.Status.CleanProof == nil:
		return State{infrav1.HostPhaseEnrolling, infrav1.HostEnrollingReason, "No agent has reported for this host yet"}
	case recordOf(h).Lost != "" && !clearedByHand(h):
		return recordLostState(h)
	case holdsPreviousClaim(h):
		return previousClaimState(h)
	case len(h.Status.Residue) > 0:
		return State{infrav1.HostPhaseQuarantined, infrav1.HostAdoptionRefusedReason, fmt.Sprintf("The host has software that Slipway did not install (%s), which the agent neither adopts nor removes by itself. "+
			"Remove it, by `slipway host reset %s -n %s` or by hand: the host then becomes available. If the host is a worker node of one of your clusters, "+
			"`slipway host adopt %s -n %s --cluster CLUSTER` adopts it as it is. Otherwise remove the machine from Slipway: `slipway host remove %s -n %s`", residue(h), h.Name, h.Namespace, h.Name, h.Namespace, h.Name, h.Namespace)}
	case h.Status.CleanProof == nil && h.Spec.ClaimGeneration == 0:
		return State{infrav1.HostPhaseEnrolling, infrav1.HostEnrollingReason, "The agent is checking whether the host is clean"}
	default:
		return State{infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason, "The agent has not verified that the host is clean. " + failedReset(h) + clearRemedy(h)}
	}
}

// HookPending tells whether an extension has yet to agree that the free host is
// claimed again.
func HookPending(h *infrav1.Host) bool {
	return h.Spec.Claim == nil && h.Annotations[runtimev1alpha1.PendingHooksAnnotation] != ""
}

func claimedState(h *infrav1.Host) State {
	claim := h.Spec.Claim
	waiting := State{infrav1.HostPhaseClaimed, infrav1.HostClaimedReason,
		fmt.Sprintf("Claimed by HostMachine %s of Cluster %s; the agent has not started the bootstrap yet", claim.MachineName, claim.ClusterName)}
	if h.Spec.Desired == nil {
		return waiting
	}
	switch h.Spec.Desired.Phase {
	case infrav1.HostDesiredAdopted:
		if Bootstrapped(h) {
			return State{infrav1.HostPhaseRunning, infrav1.HostRunningReason, ""}
		}
		adopting := State{infrav1.HostPhaseAdopting, infrav1.HostAdoptingReason, "The agent has not started to adopt the node yet"}
		return operationState(h, adopting, adopting, infrav1.HostAdoptionRefusedReason)
	case infrav1.HostDesiredUpgraded:
		message := fmt.Sprintf("The agent has not started the upgrade to %s yet", h.Spec.Desired.Version)
		upgrading := State{infrav1.HostPhaseUpgrading, infrav1.HostUpgradingReason, message}
		return operationState(h, upgrading, upgrading, infrav1.UpgradeFailedReason)
	case infrav1.HostDesiredRebooted:
		rebooting := State{infrav1.HostPhaseRebooting, infrav1.HostRebootingReason, "The agent has not started the reboot yet"}
		return operationState(h, rebooting, rebooting, infrav1.HostRebootFailedReason)
	default:
		if Bootstrapped(h) {
			// The agent may not have reported here yet, as after a move.
			return State{infrav1.HostPhaseRunning, infrav1.HostRunningReason, ""}
		}
		bootstrapping := State{Phase: infrav1.HostPhaseBootstrapping, Reason: infrav1.HostBootstrappingReason}
		return operationState(h, waiting, bootstrapping, infrav1.HostBootstrapFailedReason)
	}
}

// operationState is waiting until the agent reports on the operation, working with the message of
// the step while it is at work, and then the outcome.
func operationState(h *infrav1.Host, waiting, working State, failedReason string) State {
	op := Observed(h)
	switch {
	case op == nil:
		return waiting
	case op.State == infrav1.OperationSucceeded:
		return State{infrav1.HostPhaseRunning, infrav1.HostRunningReason, ""}
	case op.State == infrav1.OperationFailed:
		return State{infrav1.HostPhaseFailed, failedReason, FailureMessage(op)}
	default:
		working.Message = stepMessage(op)
		return working
	}
}

func releasingState(h *infrav1.Host) State {
	op := Observed(h)
	if op == nil {
		return State{infrav1.HostPhaseResetting, infrav1.HostResettingReason, "The agent has not started the reset yet"}
	}
	switch {
	case op.State == infrav1.OperationFailed:
		return State{infrav1.HostPhaseQuarantined, infrav1.HostResetFailedReason, FailureMessage(op) + ". " + clearRemedy(h)}
	case op.State != infrav1.OperationSucceeded || ProvedClean(h):
		return State{infrav1.HostPhaseResetting, infrav1.HostResettingReason, stepMessage(op)}
	case h.Spec.Desired.ResetPolicy == infrav1.ResetPolicyManual:
		return State{infrav1.HostPhaseQuarantined, infrav1.HostManualResetReason, "The reset policy is Manual. " + clearRemedy(h)}
	default:
		return State{infrav1.HostPhaseQuarantined, infrav1.HostNotCleanReason, "The reset ended, and the host was not verified clean. " + clearRemedy(h)}
	}
}

// maxResidue is how many findings a message quotes.
const maxResidue = 4

func residue(h *infrav1.Host) string {
	found := h.Status.Residue
	if more := len(found) - maxResidue; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(found[:maxResidue], ", "), more)
	}
	return strings.Join(found, ", ")
}

// clearRemedy ends the message of every quarantine after a reset.
func clearRemedy(h *infrav1.Host) string {
	return fmt.Sprintf("Clean the host by hand, then confirm that it is clean: `slipway host clear-quarantine %s -n %s`; `slipway host reset %s -n %s` tries again now",
		h.Name, h.Namespace, h.Name, h.Namespace)
}

// FailureMessage tells which step failed and why, as the agent reported it.
func FailureMessage(op *infrav1.ObservedOperation) string {
	message := op.Message
	if message == "" {
		message = "the agent gave no reason; see the log of slipway-agent on the host"
	}
	if op.Step == "" {
		return message
	}
	return fmt.Sprintf("Step %s failed: %s", op.Step, message)
}

func stepMessage(op *infrav1.ObservedOperation) string {
	switch {
	case op.Step == "":
		return op.Message
	case op.Message == "":
		return "Step " + op.Step
	default:
		return fmt.Sprintf("Step %s: %s", op.Step, op.Message)
	}
}

// Unavailable returns why nobody may claim the host now; the zero State when
// anybody may.
func Unavailable(h *infrav1.Host, connected bool) State {
	state := StateOf(h)
	switch {
	case !h.DeletionTimestamp.IsZero():
		return State{state.Phase, infrav1.HostDeletingReason, "The host is being deleted"}
	case state.Phase != infrav1.HostPhaseAvailable:
		return state
	case Leaving(h):
		return leavingState(h)
	case !connected:
		return State{state.Phase, infrav1.HostAgentNotConnectedReason, "The agent is not connected"}
	case ptr.Deref(h.Spec.Unschedulable, false):
		return State{state.Phase, infrav1.HostUnschedulableReason, "spec.unschedulable is set"}
	case ptr.Deref(h.Spec.Evacuate, false):
		return State{state.Phase, infrav1.HostEvacuateReason, "spec.evacuate is set; the host is free for maintenance"}
	}
	return refused(h)
}

// HeldBack says whether somebody keeps new machines from the host, claimed or not: it is not
// approved, unschedulable, evacuated, leaves the namespace or is being deleted.
func HeldBack(h *infrav1.Host) bool {
	return !Approved(h) || ptr.Deref(h.Spec.Unschedulable, false) || ptr.Deref(h.Spec.Evacuate, false) || Leaving(h) || !h.DeletionTimestamp.IsZero()
}

// refused returns why the host itself is not fit to be claimed, as the Host
// controller found: it shares its identity, or its agent is too old or too new.
func refused(h *infrav1.Host) State {
	phase := infrav1.HostPhaseAvailable
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.DuplicateIdentityCondition); c != nil && c.Status == metav1.ConditionTrue {
		return State{phase, c.Reason, c.Message}
	}
	if c := meta.FindStatusCondition(h.Status.Conditions, infrav1.AgentSupportedCondition); c != nil && c.Status == metav1.ConditionFalse {
		return State{phase, c.Reason, c.Message}
	}
	return State{}
}
