package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 5,
	Name:   "DuplicateHost",
	Means:  "two hosts have the same key or machine-id, as cloned disks have; neither is claimed",
	Remedy: "Give the clone its own identity, as the message says.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.DuplicateIdentityCondition, metav1.ConditionTrue); c != nil {
				return atHost(h, Error).of(c).describe(), true
			}
			return none()
		})
	},
})
