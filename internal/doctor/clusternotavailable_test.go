package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// unavailable is a Cluster that is not available, and whose other condition is so.
func unavailable(kind string, is metav1.ConditionStatus) func(s *Snapshot) {
	return func(s *Snapshot) {
		conditions := &s.Clusters[0].Status.Conditions
		set(conditions, clusterv1.ClusterAvailableCondition, "False", clusterv1.ClusterNotAvailableReason, "* WorkersAvailable: too few")
		set(conditions, kind, is, "Because", "")
	}
}

var _ = add([]testCase{
	{"a cluster is not available", unavailable(clusterv1.ClusterRollingOutCondition, "False"),
		[]want{{"ClusterNotAvailable", Error, "Cluster prod/a", 3 * time.Hour, "WorkersAvailable: too few", "kubectl describe cluster.cluster.x-k8s.io/a -n prod"}}},
	{"a cluster is not available while it rolls out", unavailable(clusterv1.ClusterRollingOutCondition, "True"), nil},
	{"a cluster is not available yet", func(s *Snapshot) {
		unavailable(clusterv1.ClusterControlPlaneInitializedCondition, "False")(s)
		s.HostClusters = nil
	}, nil},
	{"a cluster is not available, and its topology waits", unavailable(clusterv1.ClusterTopologyReconciledCondition, "False"), nil},
}...)
