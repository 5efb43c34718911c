package provider

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// The two managers of the rule: one for a namespace, one for a label.
const (
	tenantNamespace = "tenant-a"
	tenantFilter    = "tenant-b"
)

// multiTenancy: with --namespace and --watch-filter a manager works on what is its
// own, and on nothing else.
func multiTenancy(t *testing.T, s *Suite) {
	tenants := startTenants(t, s)
	tenants.makeNamespace(t, tenantNamespace)
	unlabelled, labelled := map[string]string{}, map[string]string{clusterv1.WatchLabel: tenantFilter}
	nobodys := tenants.newTenant(t, tenants.namespaceFor(t), unlabelled)
	theirs := []*fixture{
		tenants.newTenant(t, tenantNamespace, unlabelled),
		tenants.newTenant(t, tenants.namespaceFor(t), labelled),
	}
	for _, f := range theirs {
		testenv.Object(t, tenants.Client, f.cluster, "the Cluster of a tenant is provisioned", provisioned)
		p := tenantPool(f)
		testenv.Object(t, tenants.Client, p, "the pool of a tenant runs", func(p *infrav1.HostMachinePool) string {
			return unless(ptr.Deref(p.Status.Initialization.Provisioned, false), "%v", p.Status)
		})
		for _, member := range f.members(&pool{MachinePool: &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}}) {
			if got, want := member.Labels[clusterv1.WatchLabel], f.infra.Labels[clusterv1.WatchLabel]; got != want {
				t.Errorf("HostMachine %s has the filter %q, its pool %q", member.Name, got, want)
			}
		}
	}
	for _, kind := range []string{"HostCluster", "HostMachinePool", "Host"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(group + "/" + string(s.Contract))
		list.SetKind(kind + "List")
		nobodys.list(list)
		for _, item := range list.Items {
			if status, found := item.Object["status"].(map[string]any); found && len(status) > 0 {
				t.Errorf("%s %s, which belongs to no tenant, was touched: %v", kind, item.GetName(), status)
			}
		}
	}
	if err := tenants.Failures(); err != nil {
		t.Error(err)
	}
	for _, line := range tenants.Logged("is forbidden: User") {
		t.Errorf("a right is missing: %s", line)
	}
}

// startTenants starts a plane of its own: the manager of the suite works on all.
func startTenants(t *testing.T, s *Suite) *Suite {
	t.Helper()
	subjects := []judge.Subject{judge.Core}
	for _, flag := range []string{"--namespace=" + tenantNamespace, "--watch-filter=" + tenantFilter} {
		subject, err := Slipway(t.Context(), s.Kit, "slipway"+flag, []Contract{s.Contract}, flag)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, subject)
	}
	plane, err := judge.Start(t.Context(), judge.Options{
		Kit: s.Kit, Dir: t.TempDir(), Scheme: s.Client.Scheme(), Subjects: subjects,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	tenants, err := NewSuite(s.Contract, s.Kit, plane, s.Workload)
	if err != nil {
		t.Fatal(err)
	}
	return tenants
}

func (s *Suite) makeNamespace(t *testing.T, name string) {
	t.Helper()
	if err := s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// newTenant makes a Cluster with a host and a pool, all with the same labels.
func (s *Suite) newTenant(t *testing.T, namespace string, labels map[string]string) *fixture {
	t.Helper()
	f := &fixture{t: t, Suite: s, namespace: namespace}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: clusterName, Labels: labels}
	f.cluster = &clusterv1.Cluster{ObjectMeta: *meta.DeepCopy()}
	f.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostCluster", Name: clusterName}
	f.infra = &infrav1.HostCluster{ObjectMeta: meta, Spec: infrav1.HostClusterSpec{
		ControlPlaneEndpoint: f.endpoint(), Endpoint: infrav1.EndpointSpec{Type: infrav1.EndpointExternal},
	}}
	f.create(f.infra, f.cluster)
	s.addHost(t, namespace, "h1", func(h *infrav1.Host) { h.Labels = labels })
	f.newPool(1, func(mp *clusterv1.MachinePool, p *infrav1.HostMachinePool) { mp.Labels, p.Labels = labels, labels })
	return f
}

func tenantPool(f *fixture) *infrav1.HostMachinePool {
	return &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pool"}}
}
