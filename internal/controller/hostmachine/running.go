package hostmachine

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// upToDate says how far the host is with the version the machine itself asks for. A
// failed upgrade makes it false and no more: the machine may well serve on.
func upToDate(m *infrav1.HostMachine, s *scope) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.UpToDateCondition, Status: metav1.ConditionFalse}
	if s.host == nil || !host.Bootstrapped(s.host) {
		condition.Reason = infrav1.HostMachinePendingReason
		return condition
	}
	wanted, h := m.Spec.Version, s.host
	state := host.StateOf(h)
	switch {
	case wanted == "" || wanted == host.RunningVersion(h):
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostMachineUpToDateReason
	case state.Reason == infrav1.UpgradeFailedReason && h.Spec.Desired.Version == wanted:
		condition.Reason = state.Reason
		condition.Message = fmt.Sprintf("Upgrade of Host %s to %s: %s. Mend the host and reboot it by raising spec.reboots, "+
			"which tries again, or delete the Machine to replace it", h.Name, wanted, state.Message)
	case state.Reason == infrav1.HostUpgradingReason:
		condition.Reason, condition.Message = state.Reason, state.Message
	case host.OfferOf(h, wanted, s.release) == host.OfferNone:
		condition.Reason = infrav1.HostMachineVersionNotOfferedReason
		condition.Message = host.NotOffered(h, wanted)
	default:
		condition.Reason = infrav1.HostMachineUpgradePendingReason
		condition.Message = fmt.Sprintf("Host %s is to be upgraded to %s. %s", h.Name, wanted, state.Message)
	}
	return condition
}

// rebooted says how far the last reboot is; asked is false while there was none.
func rebooted(m *infrav1.HostMachine, s *scope) (_ metav1.Condition, asked bool) {
	n := ptr.Deref(m.Spec.Reboots, 0)
	if n == 0 || s.host == nil || s.host.Spec.Desired == nil {
		return metav1.Condition{}, false
	}
	condition := metav1.Condition{Type: infrav1.RebootedCondition, Status: metav1.ConditionFalse}
	desired, state := s.host.Spec.Desired, host.StateOf(s.host)
	switch {
	case ptr.Deref(desired.Reboots, 0) < n:
		condition.Reason = infrav1.HostMachineRebootPendingReason
		condition.Message = fmt.Sprintf("Host %s is to be rebooted. %s", s.host.Name, cmp.Or(s.rebootHeld, state.Message))
	case desired.Phase == infrav1.HostDesiredRebooted && state.Phase != infrav1.HostPhaseRunning:
		condition.Reason, condition.Message = state.Reason, state.Message
		if host.EvictionsRefused(s.host) {
			condition.Reason = infrav1.HostMachineEvictionsRefusedReason
			condition.Message += fmt.Sprintf(". Relax the disruption budget, or let the pods run elsewhere, before the agent's drainTimeout is over: "+
				"then the Node is uncordoned, and the reboot fails. `slipway host reboot %s -n %s` reboots now, without a drain", s.host.Name, s.host.Namespace)
		}
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostMachineRebootedReason
	}
	return condition, true
}

// evacuating tells a machine that it has to leave its host; asked is false when it
// may stay.
func evacuating(s *scope) (_ metav1.Condition, asked bool) {
	if s.host == nil || !ptr.Deref(s.host.Spec.Evacuate, false) {
		return metav1.Condition{}, false
	}
	return metav1.Condition{
		Type: infrav1.EvacuatingCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostMachineEvacuatingReason,
		Message: fmt.Sprintf("spec.evacuate of Host %s is set. A pool replaces the machine; of any other, delete the Machine", s.host.Name),
	}, true
}
