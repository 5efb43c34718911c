package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Claim + 4,
	Name:   "MachineLostHost",
	Means:  "the host of a machine was deleted or claimed by another; a machine never gets a second host",
	Remedy: "Delete the Machine; its owner creates another.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.HostMachineHostLostReason); c != nil {
				return atHostMachine(m, Error).of(c).next("kubectl delete machine %s -n %s", m.Name, m.Namespace), true
			}
			return none()
		})
	},
})

func atHostMachine(m *infrav1.HostMachine, severity Severity) Finding {
	return at(infrav1.GroupVersion, "HostMachine", m, severity)
}
