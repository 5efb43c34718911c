package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 1,
	Name:   "ClockSkewed",
	Means:  "the clocks of a host and of the manager are 30 s apart or more, which certificates and tokens may not bear",
	Remedy: "Have the host take its time from the network. If most hosts are found, the clock of the manager is wrong.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.ClockSkewedCondition, metav1.ConditionTrue); c != nil {
				return atHost(h, Warning).of(c).next("on the host: timedatectl set-ntp true"), true
			}
			return none()
		})
	},
})
