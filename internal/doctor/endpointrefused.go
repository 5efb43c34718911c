package doctor

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  ControlPlane,
	Name:   "EndpointRefused",
	Means:  "no host can hold the endpoint of a new cluster: it is a host's own address, another cluster has it, it is none that other machines reach, or the Cluster has another one; its machines claim no host",
	Remedy: "Create the Cluster anew, as the message says.",
	find: func(s *Snapshot) []Finding {
		return each(s.HostClusters, func(c *infrav1.HostCluster) (Finding, bool) {
			refused := condition(c.Status.Conditions, clusterv1.ReadyCondition, metav1.ConditionFalse,
				infrav1.HostClusterEndpointInvalidReason, infrav1.HostClusterEndpointOfHostReason, infrav1.HostClusterEndpointOfClusterReason)
			if refused == nil || !c.DeletionTimestamp.IsZero() {
				return none()
			}
			f, name := atHostCluster(c, Error).of(refused).describe(), c.Labels[clusterv1.ClusterNameLabel]
			if name == "" || slices.ContainsFunc(s.Hosts, func(h infrav1.Host) bool {
				return h.Namespace == c.Namespace && h.Spec.Claim != nil && h.Spec.Claim.ClusterName == name
			}) {
				return f, true
			}
			return f.next("kubectl delete cluster %s -n %s", name, c.Namespace), true
		})
	},
})
