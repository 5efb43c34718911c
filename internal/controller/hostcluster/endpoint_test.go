package hostcluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
		"of both":                   {spec: endpoint("10.0.0.1", 7443), cluster: endpoint("10.0.0.1", 7443), want: endpoint("10.0.0.1", 7443)},
		"of both, in other words":   {spec: endpoint("fd00::1", 7443), cluster: endpoint("FD00:0::1", 7443), want: endpoint("fd00::1", 7443)},
		"the Cluster's port":        {spec: endpoint("fd00::1", 0), cluster: endpoint("FD00:0::1", 7443), want: endpoint("fd00::1", 7443)},
		"the Cluster's host":        {spec: endpoint("", 8443), cluster: endpoint("10.0.0.2", 0), want: endpoint("10.0.0.2", 8443)},
		"another host":              {spec: endpoint("10.0.0.1", 8443), cluster: endpoint("10.0.0.2", 8443), want: endpoint("10.0.0.1", 8443), reason: infrav1.HostClusterEndpointInvalidReason, says: "is 10.0.0.1:8443, and that of Cluster c1 is 10.0.0.2:8443"},
		"another port":              {spec: endpoint("10.0.0.2", 6443), cluster: endpoint("10.0.0.2", 8443), want: endpoint("10.0.0.2", 6443), reason: infrav1.HostClusterEndpointInvalidReason, says: "with one endpoint"},
		"a name in the Cluster":     {spec: endpoint("10.0.0.1", 6443), cluster: endpoint("api.example", 6443), want: endpoint("10.0.0.1", 6443), reason: infrav1.HostClusterEndpointInvalidReason, says: "api.example:6443"},
		"another one, provisioned":  {spec: endpoint("10.0.0.1", 7443), cluster: endpoint("10.0.0.2", 8443), provisioned: true, want: endpoint("10.0.0.1", 7443)},
		"another one of a balancer": {spec: endpoint("10.0.0.1", 7443), cluster: endpoint("10.0.0.2", 8443), kind: external, want: endpoint("10.0.0.1", 7443)},
		"none":                      {reason: infrav1.HostClusterEndpointMissingReason, says: "unused IP address"},
		"only a port":               {spec: endpoint("", 8443), want: endpoint("", 8443), reason: infrav1.HostClusterEndpointMissingReason, says: "unused IP address"},
		"none of a load balancer":   {kind: external, reason: infrav1.HostClusterEndpointMissingReason, says: "your load balancer"},
		"a name":                    {spec: endpoint("api.example", 1), want: endpoint("api.example", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: `"api.example"`},
		"a name of a balancer":      {spec: endpoint("api.example", 1), kind: external, want: endpoint("api.example", 1)},
		"a host's":                  {spec: endpoint("10.0.0.5", 1), want: endpoint("10.0.0.5", 1), reason: infrav1.HostClusterEndpointOfHostReason, says: "Host host-2"},
		"a host's second":           {spec: endpoint("fd00:0::5", 1), want: endpoint("fd00:0::5", 1), reason: infrav1.HostClusterEndpointOfHostReason, says: "fd00:0::5"},
		"a host's, provisioned":     {spec: endpoint("10.0.0.5", 1), want: endpoint("10.0.0.5", 1), provisioned: true},
		"a host's, of a balancer":   {spec: endpoint("10.0.0.5", 1), kind: external, want: endpoint("10.0.0.5", 1)},
		"the Cluster's, of etcd":    {spec: endpoint("10.0.0.1", 0), cluster: endpoint("10.0.0.1", 2380), want: endpoint("10.0.0.1", 2380), reason: infrav1.HostClusterEndpointInvalidReason, says: "etcd of each control-plane host listens at 2380"},
		"etcd's, of a balancer":     {spec: endpoint("10.0.0.1", 2380), kind: external, want: endpoint("10.0.0.1", 2380)},
		"loopback":                  {spec: endpoint("127.0.0.1", 1), want: endpoint("127.0.0.1", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"IPv4 loopback in IPv6":     {spec: endpoint("::ffff:127.0.0.1", 1), want: endpoint("::ffff:127.0.0.1", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"link-local":                {spec: endpoint("fe80::1%eth0", 1), want: endpoint("fe80::1%eth0", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
		"of an interface":           {spec: endpoint("fd00::1%eth0", 1), want: endpoint("fd00::1%eth0", 1), reason: infrav1.HostClusterEndpointInvalidReason, says: "no other machine"},
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

// Of two clusters with one endpoint, which came first has it, and which has hosts keeps it.
func TestSharedEndpoint(t *testing.T) {
	at := func(second int) func(*infrav1.HostCluster) {
		return func(hc *infrav1.HostCluster) { hc.CreationTimestamp = metav1.Unix(int64(second), 0) }
	}
	provisioned := func(hc *infrav1.HostCluster) { hc.Status.Initialization.Provisioned = ptr.To(true) }
	others := func(kind infrav1.EndpointType) func(*infrav1.HostCluster) {
		return func(hc *infrav1.HostCluster) { hc.Spec.Endpoint.Type = kind }
	}
	external := func(hc *infrav1.HostCluster) { hc.Annotations = map[string]string{clusterv1.ManagedByAnnotation: ""} }
	elsewhere := func(hc *infrav1.HostCluster) { hc.Namespace = "other" }
	spelt := func(text string) func(*infrav1.HostCluster) {
		return func(hc *infrav1.HostCluster) { hc.Spec.ControlPlaneEndpoint.Host = text }
	}
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(name string) func(*infrav1.HostCluster) {
		return func(hc *infrav1.HostCluster) { hc.Name = name }
	}
	all := func(changes ...func(*infrav1.HostCluster)) []func(*infrav1.HostCluster) { return changes }
	for name, tc := range map[string]struct {
		mine, other []func(*infrav1.HostCluster)
		// claimed is the cluster of a host, of its control plane unless worker says otherwise.
		claimed         string
		worker, refused bool
	}{
		"older":                           {mine: all(at(2)), other: all(at(1)), refused: true},
		"younger":                         {mine: all(at(1)), other: all(at(2))},
		"of the same second":              {mine: all(at(1)), other: all(at(1)), refused: true},
		"younger, provisioned":            {mine: all(at(1)), other: all(at(2), provisioned), refused: true},
		"of the same second, by its name": {mine: all(at(1)), other: all(at(1), named("c2"))},
		"itself, provisioned meanwhile":   {mine: all(at(1)), other: all(at(1), named("c1"), provisioned)},
		"this one has a worker":           {mine: all(at(2)), other: all(at(1), provisioned), claimed: "c1", worker: true, refused: true},
		"this one is provisioned":         {mine: all(at(2), provisioned), other: all(at(1))},
		"this one has hosts":              {mine: all(at(2)), other: all(at(1), provisioned), claimed: "c1"},
		"another cluster's hosts":         {mine: all(at(2)), other: all(at(1), provisioned), claimed: "c0", refused: true},
		"another address":                 {mine: all(at(2)), other: all(at(1), spelt("10.0.0.2"))},
		"in other words":                  {mine: all(at(2)), other: all(at(1), spelt("::ffff:10.0.0.1")), refused: true},
		"of IPv6, in other words": {
			mine: all(at(2), spelt("2001:db8::1")), other: all(at(1), spelt("2001:0DB8:0:0:0:0:0:1")), refused: true,
		},
		"of IPv6, another one":         {mine: all(at(2), spelt("2001:db8::1")), other: all(at(1), spelt("2001:db8::10"))},
		"none":                         {mine: all(at(2)), other: all(at(1), spelt(""))},
		"of a load balancer":           {mine: all(at(2)), other: all(at(1), others(infrav1.EndpointExternal))},
		"this one has a load balancer": {mine: all(at(2), others(infrav1.EndpointExternal)), other: all(at(1))},
		"with the type in words":       {mine: all(at(2)), other: all(at(1), others(infrav1.EndpointHostVIP)), refused: true},
		"of somebody else":             {mine: all(at(2)), other: all(at(1), external)},
		"in another namespace":         {mine: all(at(2)), other: all(at(1), provisioned, elsewhere)},
	} {
		t.Run(name, func(t *testing.T) {
			s := controlPlaneScope()
			other := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c0"}}
			s.hostCluster.Namespace, s.hostCluster.Name = "ns", "c1"
			for hc, changes := range map[*infrav1.HostCluster][]func(*infrav1.HostCluster){s.hostCluster: tc.mine, other: tc.other} {
				hc.Spec.ControlPlaneEndpoint = endpoint("10.0.0.1", 6443)
				for _, change := range changes {
					change(hc)
				}
			}
			if tc.claimed != "" {
				s.hosts = []infrav1.Host{*aHost(func(h *infrav1.Host) {
					h.Spec.Claim = &infrav1.HostClaim{ClusterName: tc.claimed, ControlPlane: ptr.To(!tc.worker)}
				})}
			}
			r := &Reconciler{APIReader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(other).Build()}
			if err := r.refuseSharedEndpoint(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if known := (&problem{"Known", "known"}); s.problem != nil {
				again := *s
				again.problem = known
				if err := r.refuseSharedEndpoint(t.Context(), &again); err != nil || again.problem != known {
					t.Errorf("what is known to be wrong becomes %+v, error %v", again.problem, err)
				}
			}
			refused := s.problem != nil && s.problem.reason == infrav1.HostClusterEndpointOfClusterReason && strings.Contains(s.problem.message, "HostCluster c0 ")
			if refused != tc.refused || refused != (s.problem != nil) {
				t.Errorf("problem %+v, want refused: %t", s.problem, tc.refused)
			}
		})
	}
}
