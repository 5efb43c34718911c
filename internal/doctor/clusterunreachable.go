package doctor

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer: ControlPlane + 5,
	Name:  "ClusterUnreachable",
	Means: "Cluster API no longer reaches the API server of a cluster, so it does not know its Nodes, and no machine there is upgraded, drained or replaced; " +
		"a warning after a minute, an error after five",
	Remedy: "Bring back the control-plane hosts, or the network between them and the management cluster: to the host and port of the Cluster's controlPlaneEndpoint.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			owner := s.Cluster(c.Namespace, c.Labels[clusterv1.ClusterNameLabel])
			if owner == nil || s.progress(c) != initialized || !owner.DeletionTimestamp.IsZero() {
				return none()
			}
			probe := condition(owner.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse)
			if probe == nil || condition(c.Status.Conditions, infrav1.EndpointHeldCondition, metav1.ConditionFalse, infrav1.EndpointNotHeldReason, infrav1.EndpointNotAnsweringReason) != nil {
				return none() // the other condition is the cause, and a finding of its own
			}
			begin := lastReached(probe)
			endpoint := net.JoinHostPort(c.Spec.ControlPlaneEndpoint.Host, strconv.Itoa(int(c.Spec.ControlPlaneEndpoint.Port)))
			f := atCluster(owner, s.severitySince(begin)).since(begin).next("where Cluster API runs: curl -k https://%s/readyz", endpoint)
			f.Message = fmt.Sprintf("Cluster API does not reach the API server at %s: %s", endpoint, probe.Message)
			return f, true
		})
	},
})

// lastReached is when core last reached a cluster, which only the message of its condition says: the
// condition becomes False a while later (--remote-connection-grace-period of core). Without that, it
// is when the condition did.
func lastReached(probe *metav1.Condition) time.Time {
	if _, at, found := strings.Cut(probe.Message, "probe last succeeded at "); found {
		if t, err := time.Parse(time.RFC3339, at); err == nil {
			return t
		}
	}
	return probe.LastTransitionTime.Time
}
