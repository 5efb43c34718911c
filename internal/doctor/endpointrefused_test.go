package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// refusedFor is a cluster that has no host, and whose endpoint is refused.
func refusedFor(reason string) func(s *Snapshot) {
	return func(s *Snapshot) {
		s.Hosts, s.HostMachines = s.Hosts[1:], nil
		set(&s.HostClusters[0].Status.Conditions, clusterv1.ReadyCondition, "False", reason, "create it anew")
	}
}

func endpointRefused(name, reason string) testCase {
	return testCase{name, refusedFor(reason), []want{{"EndpointRefused", Error, "HostCluster prod/a", 3 * time.Hour, "create it anew", "kubectl delete cluster a -n prod"}}}
}

var _ = add([]testCase{
	endpointRefused("an endpoint is a host's own address", infrav1.HostClusterEndpointOfHostReason),
	endpointRefused("an endpoint is that of another cluster", infrav1.HostClusterEndpointOfClusterReason),
	endpointRefused("an endpoint is no address of other machines", infrav1.HostClusterEndpointInvalidReason),
	{"the endpoint of a cluster with hosts is refused", func(s *Snapshot) {
		hosts := s.Hosts
		refusedFor(infrav1.HostClusterEndpointOfClusterReason)(s)
		s.Hosts = hosts
	}, []want{{"EndpointRefused", Error, "HostCluster prod/a", 3 * time.Hour, "create it anew", "kubectl describe hostcluster"}}},
	{"an endpoint is not known yet", refusedFor(infrav1.HostClusterEndpointMissingReason), nil},
	{"a cluster with a refused endpoint is being deleted", func(s *Snapshot) {
		refusedFor(infrav1.HostClusterEndpointOfHostReason)(s)
		s.HostClusters[0].DeletionTimestamp = ptr.To[metav1.Time](ago(time.Minute))
	}, nil},
}...)
