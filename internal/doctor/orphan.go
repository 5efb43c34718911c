package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Claim + 2,
	Name:   "ClaimOrphaned",
	Means:  "the HostMachine that claimed a host is gone and requested no reset; the host is unchanged, since a missing object never causes a reset",
	Remedy: "Find out who deleted the HostMachine, or whether it is in another management cluster. To reset the host, annotate it as the message says.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionFalse, infrav1.HostOrphanedClaimReason); c != nil {
				return atHost(h, Error).of(c).describe(), true
			}
			return none()
		})
	},
})
