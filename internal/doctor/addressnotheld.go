package doctor

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  ControlPlane + 3,
	Name:   "AddressNotHeld",
	Means:  "no host has the control-plane address, or the host that had it is away: the API server may be unreachable there",
	Remedy: "Check the control-plane hosts of the cluster. The election needs etcd's quorum: if most of them are down, repair one.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			held := meta.FindStatusCondition(c.Status.Conditions, infrav1.EndpointHeldCondition)
			if held == nil || held.Status == metav1.ConditionTrue {
				return none()
			}
			// Until the first control-plane machine is up, nobody can hold it.
			if s.progress(c) == pending {
				return none()
			}
			switch held.Reason {
			case infrav1.EndpointNotHeldReason:
				return atHostCluster(c, s.severitySince(held.LastTransitionTime.Time)).of(held).describe(), true
			case infrav1.EndpointHolderAwayReason:
				return atHostCluster(c, s.severitySince(held.LastTransitionTime.Time).upToWarning()).of(held).describe(), true
			}
			return none()
		})
	},
})
