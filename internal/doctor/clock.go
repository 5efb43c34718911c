package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 1,
	Name:   "ClockSkewed",
	Means:  "the clocks of a host and the manager differ by 30 s or more; certificates and tokens may be rejected; a note at first, a warning after a minute, an error after five",
	Remedy: "Set the host's clock from the network. If most hosts are found, the manager's clock is wrong.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.ClockSkewedCondition, metav1.ConditionTrue); c != nil {
				return atHost(h, s.severitySince(c.LastTransitionTime.Time)).of(c).next("on the host: timedatectl set-ntp true"), true
			}
			return none()
		})
	},
})
