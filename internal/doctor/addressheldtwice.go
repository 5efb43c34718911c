package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  ControlPlane + 2,
	Name:   "AddressHeldTwice",
	Means:  "two hosts of a control plane have its address",
	Remedy: "Do not remove the address by hand: the host that is not elected releases it within seconds. If that lasts, check slipway-agent on both hosts.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			if held := condition(c.Status.Conditions, infrav1.EndpointHeldCondition, metav1.ConditionFalse, infrav1.EndpointHeldTwiceReason); held != nil {
				return atHostCluster(c, s.severitySince(held.LastTransitionTime.Time)).of(held).describe(), true
			}
			return none()
		})
	},
})
