package doctor

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var _ = register(Check{
	Layer:  Machines + 10,
	Name:   "ClusterNotAvailable",
	Means:  "a cluster is not available, it does not change, and no other check of it or of its Nodes says why; a note at first, a warning after a minute, an error after five",
	Remedy: "Correct what the message names: it has each condition of the Cluster that is not as it should be.",
	find: func(s *Snapshot) []Finding {
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			available := condition(c.Status.Conditions, clusterv1.ClusterAvailableCondition, metav1.ConditionFalse)
			if available == nil || !c.DeletionTimestamp.IsZero() ||
				condition(c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionTrue) == nil ||
				condition(c.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse) != nil ||
				condition(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse) != nil ||
				slices.ContainsFunc(UnderWay, func(kind string) bool { return condition(c.Status.Conditions, kind, metav1.ConditionTrue) != nil }) ||
				slices.ContainsFunc(s.Machines, func(m clusterv1.Machine) bool {
					return m.Namespace == c.Namespace && m.Spec.ClusterName == c.Name && NodeTroubleOf(&m) != nil
				}) {
				return none()
			}
			return atCluster(c, s.severitySince(available.LastTransitionTime.Time)).of(available).describe(), true
		})
	},
})
