package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  ControlPlane + 1,
	Name:   "AddressContested",
	Means:  "a machine that is not of this control plane has its address, or the elected host reports another problem with it",
	Remedy: "Do what the message says. The elected host keeps the address in any case: do not remove it there.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			if held := condition(c.Status.Conditions, infrav1.EndpointHeldCondition, metav1.ConditionFalse, infrav1.EndpointContestedReason); held != nil {
				return atHostCluster(c, s.severitySince(held.LastTransitionTime.Time)).of(held).next("on a host of that network: arping %s", c.Spec.ControlPlaneEndpoint.Host), true
			}
			return none()
		})
	},
})

func atHostCluster(c *infrav1.HostCluster, severity Severity) Finding {
	return at(infrav1.GroupVersion, "HostCluster", c, severity)
}
