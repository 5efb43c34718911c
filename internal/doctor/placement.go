package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Machines + 1,
	Name:   "NoHostForMachine",
	Means:  "a machine waits for a host, and no host fits",
	Remedy: "Enroll or free a host that fits, or change the machine's requirements. The message has each host's reason.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.HostMachineNoHostFitsReason); c != nil {
				return atHostMachine(m, Error).of(c).next("slipway status --explain %s/%s", m.Namespace, m.Name), true
			}
			return none()
		})
	},
})

// hostPatience is how long a control plane may take to get its machines.
const hostPatience = time.Hour

var _ = register(Check{
	Layer: Machines + 2,
	Name:  "ControlPlaneFirst",
	Means: "a worker waits for a host because its control plane needs those that fit; a warning once that has lasted an hour",
	Remedy: "Enroll more hosts. If the control plane does not get its machines, see what its object waits for. " +
		"Annotation `infrastructure.slipway.dev/control-plane-first: \"false\"` on the Cluster lets its workers claim these hosts.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			c := condition(m.Status.Conditions, infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.HostMachineControlPlaneFirstReason)
			if c == nil {
				return none()
			}
			severity := Note
			if s.Now.Sub(c.LastTransitionTime.Time) >= hostPatience {
				severity = Warning
			}
			return atHostMachine(m, severity).of(c).next("slipway status --explain %s/%s", m.Namespace, m.Name), true
		})
	},
})

var _ = register(Check{
	Layer: Machines + 3,
	Name:  "OwnerDeleting",
	Means: "a machine gets no host, or its host no bootstrap, because its Cluster or an owner is being deleted",
	Remedy: "More hosts do not help. Find what delays the deletion: a lifecycle policy, a hook, a drain or a finalizer of the object in the message. " +
		"The machine is deleted with it, or with its Machine.",
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
})
