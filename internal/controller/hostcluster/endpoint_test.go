package hostcluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func endpoint(host string, port int32) clusterv1.APIEndpoint {
	return clusterv1.APIEndpoint{Host: host, Port: port}
}

// Which endpoint a cluster has, and what is wrong with it. Nothing is checked again once core knows it.
func TestEndpointIsCompleted(t *testing.T) {
	external := infrav1.EndpointSpec{Type: infrav1.EndpointExternal}
	for name, tc := range map[string]struct {
		spec, cluster clusterv1.APIEndpoint
		kind          infrav1.EndpointSpec
		provisioned   bool
		want          clusterv1.APIEndpoint
		reason, says  string
	}{
		"complete":                  {spec: endpoint("10.0.0.1", 7443), want: endpoint("10.0.0.1", 7443)},
		"without a port":            {spec: endpoint("fd00::1", 0), want: endpoint("fd00::1", 6443)},
		"of the Cluster":            {cluster: endpoint("10.0.0.2", 8443), want: endpoint("10.0.0.2", 8443)},
		"of the spec first":         {spec: endpoint("10.0.0.1", 7443), cluster: endpoint("10.0.0.2", 8443), want: endpoint("10.0.0.1", 7443)},
		"none":                      {reason: infrav1.HostClusterEndpointMissingReason, says: "unused IP address"},
		"only a port":               {spec: endpoint("", 8443), want: endpoint("", 8443), reason: infrav1.HostClusterEndpointMissingReason, says: "unused IP address"},
		"none of a load balancer":   {kind: external, reason: infrav1.HostClusterEndpointMissingReason, says: "your load balancer"},
		"a name":                    {spec: endpoint("api.example", 1), want: endpoint("api.example", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: `"api.example"`},
		"a name of a balancer":      {spec: endpoint("api.example", 1), kind: external, want: endpoint("api.example", 1)},
		"a host's":                  {spec: endpoint("10.0.0.5", 1), want: endpoint("10.0.0.5", 1), reason: infrav1.HostClusterEndpointOfHostReason, says: "Host host-2"},
		"a host's second":           {spec: endpoint("fd00:0::5", 1), want: endpoint("fd00:0::5", 1), reason: infrav1.HostClusterEndpointOfHostReason, says: "fd00:0::5"},
		"a host's, provisioned":     {spec: endpoint("10.0.0.5", 1), want: endpoint("10.0.0.5", 1), provisioned: true},
		"a host's, of a balancer":   {spec: endpoint("10.0.0.5", 1), kind: external, want: endpoint("10.0.0.5", 1)},
		"loopback":                  {spec: endpoint("127.0.0.1", 1), want: endpoint("127.0.0.1", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"IPv4 loopback in IPv6":     {spec: endpoint("::ffff:127.0.0.1", 1), want: endpoint("::ffff:127.0.0.1", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"link-local":                {spec: endpoint("fe80::1%eth0", 1), want: endpoint("fe80::1%eth0", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"all addresses":             {spec: endpoint("::", 1), want: endpoint("::", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"of a group":                {spec: endpoint("ff02::1", 1), want: endpoint("ff02::1", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "not one of a single machine"},
		"a host's name, no address": {spec: endpoint("host-2", 1), want: endpoint("host-2", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: `"host-2"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := controlPlaneScope()
			s.cluster.Spec.ControlPlaneEndpoint = tc.cluster
			s.hostCluster.Spec.ControlPlaneEndpoint, s.hostCluster.Spec.Endpoint = tc.spec, tc.kind
			s.hostCluster.Status.Initialization.Provisioned = ptr.To(tc.provisioned)
			s.hosts = []infrav1.Host{*aHost(), *aHost(func(h *infrav1.Host) { h.Name = "host-2" })}
			for _, address := range []string{"10.0.0.5", "fd00::5", "host-2"} {
				s.hosts[1].Status.Addresses = append(s.hosts[1].Status.Addresses, clusterv1.MachineAddress{Address: address})
			}
			r := &Reconciler{}
			if err := r.ensureEndpoint(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if err := r.refuseHostAddress(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if got := s.hostCluster.Spec.ControlPlaneEndpoint; got != tc.want {
				t.Errorf("endpoint %+v, want %+v", got, tc.want)
			}
			if (s.problem == nil) != (tc.reason == "") || s.problem != nil && (s.problem.reason != tc.reason || !strings.Contains(s.problem.message, tc.says)) {
				t.Errorf("problem %+v, want %s with %q", s.problem, tc.reason, tc.says)
			}
		})
	}
}

// Ready of a HostCluster, by what is known.
func TestReadyOfAHostCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		problem *problem
		deleted bool
		want    metav1.Condition
	}{
		"well":                     {want: metav1.Condition{Status: metav1.ConditionTrue, Reason: infrav1.HostClusterProvisionedReason}},
		"a problem":                {problem: &problem{"Wrong", "what"}, want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "Wrong", Message: "what"}},
		"being deleted":            {deleted: true, want: metav1.Condition{Status: metav1.ConditionFalse, Reason: clusterv1.DeletingReason}},
		"a problem, being deleted": {problem: &problem{"Wrong", "what"}, deleted: true, want: metav1.Condition{Status: metav1.ConditionFalse, Reason: "Wrong", Message: "what"}},
	} {
		s := controlPlaneScope()
		s.problem = tc.problem
		if tc.deleted {
			s.hostCluster.DeletionTimestamp = ptr.To(metav1.Now())
		}
		setReady(s)
		got := conditions.Get(s.hostCluster, clusterv1.ReadyCondition)
		if got.Status != tc.want.Status || got.Reason != tc.want.Reason || got.Message != tc.want.Message {
			t.Errorf("%s: Ready = %+v, want %+v", name, got, tc.want)
		}
	}
}
