package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var noHostFits = Check{
	Name:   "NoHostForMachine",
	Means:  "a machine waits for a host, and none that there is fits",
	Remedy: "Enroll a host that fits, free one, or change what the machine asks for. The message has each host's reason, as placement judged it.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.HostMachineNoHostFitsReason); c != nil {
				return atHostMachine(m, Error).of(c).next("slipway status --explain %s/%s", m.Namespace, m.Name), true
			}
			return none()
		})
	},
}

var ownerDeleting = Check{
	Name:  "OwnerDeleting",
	Means: "a machine gets no host, or its host no bootstrap, because its Cluster or an owner is being deleted",
	Remedy: "More hosts do not help. See what holds the deletion up: a lifecycle policy, a hook, a drain or a finalizer of the object that the message names. " +
		"The machine goes with it, or when you delete its Machine.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			c := condition(m.Status.Conditions, infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.HostMachineOwnerDeletingReason)
			if c == nil {
				c = condition(m.Status.Conditions, infrav1.BootstrapSucceededCondition, metav1.ConditionFalse, infrav1.HostMachineBootstrapOwnerDeletingReason)
			}
			if c == nil || !m.DeletionTimestamp.IsZero() {
				return none()
			}
			return atHostMachine(m, Note).of(c).describe(), true
		})
	},
}
