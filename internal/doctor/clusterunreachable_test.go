package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func unreached(message string) func(*Snapshot) {
	return func(s *Snapshot) {
		set(&s.Clusters[0].Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason, message)
	}
}

func lastReachedAgo(d time.Duration) func(*Snapshot) {
	return unreached("Remote connection probe failed, probe last succeeded at " + ago(d).Format(time.RFC3339))
}

var _ = add([]testCase{
	{"nobody has reached a cluster for a minute", lastReachedAgo(time.Minute),
		[]want{{"ClusterUnreachable", Warning, "Cluster prod/a", time.Minute, "does not reach the API server at 10.0.0.9:8443: Remote connection probe failed", "curl -k https://10.0.0.9:8443/readyz"}}},
	{"nobody has reached a cluster for half a minute", lastReachedAgo(30 * time.Second),
		[]want{{"ClusterUnreachable", Note, "Cluster prod/a", 30 * time.Second, "does not reach", "curl"}}},
	{"nobody has reached a cluster since core was started", unreached("Remote connection probe failed"),
		[]want{{"ClusterUnreachable", Error, "Cluster prod/a", 3 * time.Hour, "does not reach", "curl"}}},
	{"nobody reaches a cluster as no host has its address", func(s *Snapshot) {
		lastReachedAgo(time.Minute)(s)
		set(&s.HostClusters[0].Status.Conditions, infrav1.EndpointHeldCondition, metav1.ConditionFalse, infrav1.EndpointNotHeldReason, "Nobody holds it")
	}, []want{{"AddressNotHeld", Error, "HostCluster prod/a", 3 * time.Hour, "Nobody holds it", "describe"}}},
	{"nobody reaches a cluster that is being deleted", func(s *Snapshot) {
		lastReachedAgo(time.Minute)(s)
		s.Clusters[0].DeletionTimestamp = ptr.To(ago(time.Minute))
	}, nil},
	{"nobody has reached a cluster that was never reached", func(s *Snapshot) {
		unreached("Remote connection not established yet")(s)
		set(&s.Clusters[0].Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionFalse, clusterv1.ClusterControlPlaneNotInitializedReason, "")
	}, []want{{"EndpointNotAnswering", Error, "Cluster prod/a", 3 * time.Hour, "although a host of it has bootstrapped", "curl"}}},
}...)
