package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Claim + 1,
	Name:   "HostQuarantined",
	Means:  "a host is not verified as clean, and cannot be claimed until it is",
	Remedy: "Repair or clean what the message names; the agent checks again by itself. Or use one of the commands in it.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			state := host.StateOf(h)
			if !state.Quarantined() {
				return none()
			}
			f := atHost(h, Error).describe()
			f.Message = state.Message
			// While the agent is away, Ready is about that.
			if c := condition(h.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionFalse, state.Reason); c != nil {
				f = f.since(c.LastTransitionTime.Time)
			}
			return f, true
		})
	},
})
