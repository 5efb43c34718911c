package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var addressContested = Check{
	Name:   "AddressContested",
	Means:  "the host with the control-plane address reports a problem with it, as when another machine answers for it, too",
	Remedy: "Find the other machine by the hardware address in the message, and take the address off it.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			if held := condition(c.Status.Conditions, infrav1.EndpointHeldCondition, metav1.ConditionFalse, infrav1.EndpointContestedReason); held != nil {
				return atHostCluster(c, Error).of(held).next("on a host of that network: arping %s", c.Spec.ControlPlaneEndpoint.Host), true
			}
			return none()
		})
	},
}

func atHostCluster(c *infrav1.HostCluster, severity Severity) Finding {
	return at(infrav1.GroupVersion, "HostCluster", c, severity)
}
