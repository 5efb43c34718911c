package hostmachine

import (
	"fmt"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestFamiliesOfTheCluster(t *testing.T) {
	for _, c := range []struct {
		pods, services []string
		want           string
	}{
		{nil, nil, "[]"},
		{[]string{"10.244.0.0/16"}, []string{"fd00::/112"}, "[IPv4]"},
		{nil, []string{"fd00::/112"}, "[IPv6]"},
		{[]string{"fd00::/56", "10.244.0.0/16"}, nil, "[IPv6 IPv4]"},
		{[]string{"10.244.0.0/16", "10.245.0.0/16"}, nil, "[IPv4]"},
		{[]string{"pods"}, nil, "[]"},
	} {
		cluster := &clusterv1.Cluster{}
		cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, cluster.Spec.ClusterNetwork.Services.CIDRBlocks = c.pods, c.services
		if got := fmt.Sprint(ipFamilies(cluster)); got != c.want {
			t.Errorf("pods %v, services %v: %s, want %s", c.pods, c.services, got, c.want)
		}
	}
	if ipFamilies(nil) != nil {
		t.Error("there are families without a Cluster")
	}
}
