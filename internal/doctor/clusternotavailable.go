package doctor

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// NeverAvailable says whether a cluster has not been available since it was created.
func NeverAvailable(c *clusterv1.Cluster) bool {
	available := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterAvailableCondition)
	if available == nil || available.Status == metav1.ConditionTrue {
		return available == nil
	}
	initialized := condition(c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionTrue)
	return initialized == nil || available.LastTransitionTime.Before(&initialized.LastTransitionTime)
}

const (
	// availablePatience is how long Cluster API takes at most to sum up conditions, of which one may be
	// false for a moment while a cluster changes.
	availablePatience = 10 * time.Second
	// firstAvailablePatience is how long a cluster may take to be available for the first time once its
	// control plane is initialized: etcd and the workers are reported then.
	firstAvailablePatience = time.Minute
)

var _ = register(Check{
	Layer:  Machines + 10,
	Name:   "ClusterNotAvailable",
	Means:  "a cluster is not available, it does not change, and no other check of it or of its Nodes says why; a note at first, a warning after a minute, an error after five",
	Remedy: "Correct what the message names: it has each condition of the Cluster that is not as it should be.",
	find: func(s *Snapshot) []Finding {
		return each(s.Clusters, func(c *clusterv1.Cluster) (Finding, bool) {
			available := condition(c.Status.Conditions, clusterv1.ClusterAvailableCondition, metav1.ConditionFalse)
			initialized := condition(c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionTrue)
			if available == nil || !c.DeletionTimestamp.IsZero() ||
				initialized == nil ||
				condition(c.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse) != nil ||
				condition(c.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse) != nil ||
				slices.ContainsFunc(UnderWay, func(kind string) bool { return condition(c.Status.Conditions, kind, metav1.ConditionTrue) != nil }) ||
				slices.ContainsFunc(s.Machines, func(m clusterv1.Machine) bool {
					return m.Namespace == c.Namespace && m.Spec.ClusterName == c.Name && NodeTroubleOf(&m) != nil
				}) {
				return none()
			}
			begin, patience := available.LastTransitionTime.Time, availablePatience
			if NeverAvailable(c) {
				begin, patience = initialized.LastTransitionTime.Time, firstAvailablePatience
			}
			if s.Now.Sub(begin) < patience {
				return none()
			}
			return atCluster(c, s.severitySince(begin)).of(available).since(begin).describe(), true
		})
	},
})
