package hostmachine

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// setConditions computes every condition from what was seen.
func setConditions(m *infrav1.HostMachine, s *scope) {
	conditions.Set(m, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason})
	claimed, bootstrapped := hostClaimed(s), bootstrapSucceeded(m, s)
	conditions.Set(m, claimed)
	conditions.Set(m, bootstrapped)
	conditions.Set(m, upToDate(m, s))
	if condition, asked := rebooted(m, s); asked {
		conditions.Set(m, condition)
	}
	if condition, asked := evacuating(s); asked {
		conditions.Set(m, condition)
	} else {
		conditions.Delete(m, infrav1.EvacuatingCondition)
	}
	conditions.Set(m, ready(m, s, claimed, bootstrapped))
}

func hostClaimed(s *scope) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.HostClaimedCondition, Status: metav1.ConditionFalse}
	switch {
	case s.host != nil:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostMachineClaimedReason
		condition.Message = "Host " + s.host.Name
	case s.released:
		condition.Reason = infrav1.HostMachineReleasedReason
	case s.waiting != nil:
		condition.Reason, condition.Message = s.waiting.reason, s.waiting.message
	default:
		condition.Reason = infrav1.HostMachineClaimingReason
	}
	return condition
}

// bootstrapSucceeded mirrors the agent's report. What once succeeded stays so.
func bootstrapSucceeded(m *infrav1.HostMachine, s *scope) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.BootstrapSucceededCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostMachinePendingReason}
	if ptr.Deref(m.Status.Initialization.Provisioned, false) {
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostMachineBootstrapSucceededReason
		return condition
	}
	if s.host == nil {
		return condition
	}
	if s.held != nil {
		condition.Reason, condition.Message = s.held.reason, s.held.message
		return condition
	}
	state := host.StateOf(s.host)
	condition.Message = state.Message
	if state.Phase == infrav1.HostPhaseBootstrapping || state.Phase == infrav1.HostPhaseAdopting {
		condition.Reason = infrav1.HostMachineBootstrapRunningReason
	}
	if state.Phase == infrav1.HostPhaseFailed {
		condition.Reason = infrav1.BootstrapFailedReason
		condition.Message += fmt.Sprintf(". Delete the Machine to try again on a clean host; the log is on Host %s", s.host.Name)
	}
	return condition
}

// readyReason is that of the condition Ready by that of BootstrapSucceeded, while that is
// false.
var readyReason = map[string]string{
	infrav1.HostMachinePendingReason:          infrav1.HostMachineReadyBootstrapPendingReason,
	infrav1.HostMachineBootstrapRunningReason: infrav1.HostMachineReadyBootstrapRunningReason,
	infrav1.BootstrapFailedReason:             infrav1.HostMachineReadyBootstrapFailedReason,
	infrav1.WaitingForMachinePoolReason:       infrav1.HostMachineReadyWaitingForMachinePoolReason,
	infrav1.WaitingForControlPlaneReason:      infrav1.HostMachineReadyWaitingForControlPlaneReason,

	infrav1.HostMachineBootstrapOwnerDeletingReason: infrav1.HostMachineReadyOwnerDeletingReason,
}

// bootstrapReportedFailed says whether the failure was reported before, so that
// it makes one event only.
func bootstrapReportedFailed(m *infrav1.HostMachine) bool {
	return conditions.GetReason(m, infrav1.BootstrapSucceededCondition) == infrav1.BootstrapFailedReason
}

// ready is true while the machine has its host, its host was bootstrapped, and nothing is
// known to be wrong with its agent and its Node.
func ready(m *infrav1.HostMachine, s *scope, claimed, bootstrapped metav1.Condition) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse}
	switch {
	case !m.DeletionTimestamp.IsZero():
		condition.Reason, condition.Message = clusterv1.DeletingReason, deletionMessage(s)
	case claimed.Status != metav1.ConditionTrue:
		condition.Reason, condition.Message = claimed.Reason, claimed.Message
	case bootstrapped.Status != metav1.ConditionTrue:
		condition.Reason, condition.Message = readyReason[bootstrapped.Reason], bootstrapped.Message
	case s.ailment != nil:
		condition.Reason, condition.Message = s.ailment.reason, s.ailment.message
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostMachineProvisionedReason
	}
	return condition
}

func deletionMessage(s *scope) string {
	if s.host == nil {
		return ""
	}
	return fmt.Sprintf("Resetting Host %s. %s", s.host.Name, host.StateOf(s.host).Message)
}
