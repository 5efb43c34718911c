package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var _ = register(Check{
	Layer:  Machines + 4,
	Name:   "TopologyFailed",
	Means:  "Cluster API cannot reconcile a Cluster's topology",
	Remedy: "Correct the Cluster or its ClusterClass as the message says.",
	find: func(s *Snapshot) []Finding {
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			if reconciled := condition(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse,
				clusterv1.ClusterTopologyReconciledFailedReason, clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason); reconciled != nil {
				return atCluster(c, Error).of(reconciled).describe(), true
			}
			return none()
		})
	},
})
