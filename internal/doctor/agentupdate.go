package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 7,
	Name:   "AgentUpdateFailed",
	Means:  "an agent tried another version and returned to its previous one, which continues; no other host updates",
	Remedy: "The log of slipway-agent on the host has the cause. Load a corrected release with `slipway bundle load`. If only that host is broken, repair it and install the version there by hand, or delete its Host.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.AgentUpdatedCondition, metav1.ConditionFalse, infrav1.HostAgentUpdateFailedReason); c != nil {
				return atHost(h, Error).of(c).next("on the host: journalctl -u slipway-agent"), true
			}
			return none()
		})
	},
})
