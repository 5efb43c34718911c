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

// notAvailable is a Cluster that was available until then.
func notAvailable(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		unavailable(clusterv1.ClusterRollingOutCondition, "False")(s)
		since(s.Clusters[0].Status.Conditions, clusterv1.ClusterAvailableCondition, age)
	}
}

// since makes the condition of that kind as old.
func since(conditions []metav1.Condition, kind string, age time.Duration) {
	for i := range conditions {
		if conditions[i].Type == kind {
			conditions[i].LastTransitionTime = ago(age)
		}
	}
}

// neverAvailable is a Cluster that was not available before its control plane was initialized, and is not since.
func neverAvailable(age time.Duration) func(s *Snapshot) {
	return func(s *Snapshot) {
		unavailable(clusterv1.ClusterRollingOutCondition, "False")(s)
		since(s.Clusters[0].Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, age)
	}
}

var _ = add([]testCase{
	{"a cluster is not available", unavailable(clusterv1.ClusterRollingOutCondition, "False"),
		[]want{{"ClusterNotAvailable", Error, "Cluster prod/a", 3 * time.Hour, "WorkersAvailable: too few", "kubectl describe cluster.cluster.x-k8s.io/a -n prod"}}},
	{"a cluster is not available while it rolls out", unavailable(clusterv1.ClusterRollingOutCondition, "True"), nil},
	{"a cluster is not available for a moment", notAvailable(9 * time.Second), nil},
	{"a cluster has not been available for seconds", notAvailable(10 * time.Second),
		[]want{{"ClusterNotAvailable", Note, "Cluster prod/a", 10 * time.Second, "WorkersAvailable: too few", "kubectl describe"}}},
	{"a cluster has just got its control plane, and is not available yet", neverAvailable(59 * time.Second), nil},
	{"a cluster has had its control plane for a minute, and was never available", neverAvailable(time.Minute),
		[]want{{"ClusterNotAvailable", Warning, "Cluster prod/a", time.Minute, "WorkersAvailable: too few", "kubectl describe"}}},
	{"a cluster is not available yet", func(s *Snapshot) {
		unavailable(clusterv1.ClusterControlPlaneInitializedCondition, "False")(s)
		s.HostClusters = nil
	}, nil},
	{"a cluster is not available, and its topology waits", unavailable(clusterv1.ClusterTopologyReconciledCondition, "False"), nil},
}...)
