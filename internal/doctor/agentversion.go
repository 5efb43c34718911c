package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 6,
	Name:   "AgentVersionSkew",
	Means:  "an agent is newer than the manager, or more than one minor version older; its host is not claimed",
	Remedy: "Upgrade the agent where it is older, the manager where the agent is newer.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.AgentSupportedCondition, metav1.ConditionFalse); c != nil {
				return atHost(h, Error).of(c).describe(), true
			}
			return none()
		})
	},
})
