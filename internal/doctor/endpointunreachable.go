package doctor

import (
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Agent + 8,
	Name:   "EndpointUnreachable",
	Means:  "a node does not reach the API server at the control-plane endpoint of its cluster, as the agent of its host says; a note at first, a warning after a minute, an error after five",
	Remedy: "Check the route, firewall and cabling between the host and the control-plane hosts. If the message is about a certificate, another machine answers at the address.",
	find: func(s *Snapshot) []Finding {
		// Where nobody serves the endpoint, that is the cause, and a finding of its own.
		down := map[string]bool{}
		for i := range s.HostClusters {
			c := &s.HostClusters[i]
			held := condition(c.Status.Conditions, infrav1.EndpointHeldCondition, metav1.ConditionFalse, infrav1.EndpointNotHeldReason, infrav1.EndpointNotAnsweringReason)
			down[c.Namespace+"/"+c.Labels[clusterv1.ClusterNameLabel]] = held != nil
		}
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			failure := h.Status.EndpointFailure
			if failure == nil || !serves(h) || down[h.Namespace+"/"+h.Spec.Claim.ClusterName] {
				return none()
			}
			f := atHost(h, s.severityOn(h, failure.Since.Time)).since(failure.Since.Time)
			f.Message = "the host does not reach the API server of its cluster: " + failure.Message
			address := failure.Server
			if server, err := url.Parse(address); err == nil {
				address = server.Hostname()
			}
			return f.next("on the host: ip route get %s", address), true
		})
	},
})

// serves says whether what the agent of a host says of it as a node is so now: what it said last, before it
// went away, may no longer be, and a node that begins or ends lacks much.
func serves(h *infrav1.Host) bool {
	return h.Spec.Claim != nil && !host.Releasing(h) && !host.Disconnected(h) && host.Bootstrapped(h)
}
