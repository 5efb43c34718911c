package provider

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// fixture is a Cluster in a namespace of its own, whose workload cluster is the API
// server of the suite.
type fixture struct {
	t *testing.T
	*Suite
	namespace string
	cluster   *clusterv1.Cluster
	infra     *infrav1.HostCluster
}

const (
	clusterName = "c1"
	poolName    = "pool"
)

// newFixture makes the objects of a Cluster. mutate may change them before.
func newFixture(t *testing.T, s *Suite, mutate ...func(*clusterv1.Cluster, *infrav1.HostCluster)) *fixture {
	t.Helper()
	f := &fixture{t: t, Suite: s, namespace: s.namespaceFor(t)}
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: clusterName}
	f.cluster = &clusterv1.Cluster{ObjectMeta: *meta.DeepCopy()}
	f.cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostCluster", Name: clusterName}
	f.infra = &infrav1.HostCluster{ObjectMeta: meta, Spec: infrav1.HostClusterSpec{
		ControlPlaneEndpoint: f.endpoint(), Endpoint: infrav1.EndpointSpec{Type: infrav1.EndpointExternal},
	}}
	for _, m := range mutate {
		m(f.cluster, f.infra)
	}
	f.create(f.infra, f.cluster)
	return f
}

// newReadyFixture makes a Cluster with infrastructure and waits until core knows.
func newReadyFixture(t *testing.T, s *Suite) *fixture {
	t.Helper()
	f := newFixture(t, s)
	f.giveKubeconfig()
	testenv.Object(t, s.Client, f.cluster, "the Cluster's infrastructure is provisioned", func(c *clusterv1.Cluster) string {
		return unless(ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false), "not provisioned")
	})
	return f
}

// endpoint is the address of the workload cluster.
func (f *fixture) endpoint() clusterv1.APIEndpoint {
	f.t.Helper()
	address, err := url.Parse(f.Workload.Config.Host)
	if err != nil {
		f.t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		f.t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		f.t.Fatal(err)
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(number)}
}

// giveKubeconfig does what a control-plane provider does: core reaches the workload
// cluster with it. It has the type of a Secret that the user provides: one of Cluster
// API's type is adopted by KubeadmControlPlane, whose renewal of a certificate that ends
// this year panics when the kubeconfig does not name its cluster as the Cluster is named
// (util/kubeconfig, RegenerateSecret, v1.14.2).
func (f *fixture) giveKubeconfig() {
	f.t.Helper()
	data, err := judge.Kubeconfig(f.Workload.Config)
	if err != nil {
		f.t.Fatal(err)
	}
	secret := kubeconfig.GenerateSecret(f.cluster, data)
	secret.Type = corev1.SecretTypeOpaque
	f.create(secret)
}

func (f *fixture) create(objects ...client.Object) {
	f.t.Helper()
	for _, object := range objects {
		if err := f.Client.Create(f.t.Context(), object); err != nil {
			f.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
	}
}

// addControlPlane makes a control-plane Machine on a host of its own. Core drains and
// deletes Nodes only of a Cluster that has one.
func (f *fixture) addControlPlane() {
	f.t.Helper()
	f.addHost(f.t, f.namespace, "control-plane")
	const name = "control-plane"
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName, clusterv1.MachineControlPlaneLabel: ""}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}}
	machine.Spec = clusterv1.MachineSpec{
		ClusterName: clusterName, Version: version,
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-" + name)},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostMachine", Name: name},
	}
	infra := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}}
	f.create(f.bootstrapSecret("bootstrap-"+name), infra, machine)
	testenv.Object(f.t, f.Client, f.cluster, "the control plane is initialized", func(c *clusterv1.Cluster) string {
		return unless(conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition), "it is not")
	})
}

// pool is a MachinePool with its HostMachinePool.
type pool struct {
	*clusterv1.MachinePool
	infra *infrav1.HostMachinePool
}

// newPool makes a pool. Its bootstrap data is that of no cluster: the hosts are
// simulated.
func (f *fixture) newPool(replicas int32, mutate ...func(*clusterv1.MachinePool, *infrav1.HostMachinePool)) *pool {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: poolName}
	p := &pool{MachinePool: &clusterv1.MachinePool{ObjectMeta: *meta.DeepCopy()}, infra: &infrav1.HostMachinePool{ObjectMeta: meta}}
	p.Spec = clusterv1.MachinePoolSpec{
		ClusterName: clusterName, Replicas: ptr.To(replicas),
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: clusterName, Version: version,
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-" + poolName)},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostMachinePool", Name: poolName},
		}},
	}
	for _, m := range mutate {
		m(p.MachinePool, p.infra)
	}
	f.create(f.bootstrapSecret("bootstrap-"+poolName), p.infra, p.MachinePool)
	return p
}

func (f *fixture) bootstrapSecret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}},
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")},
	}
}

// awaitNodes waits until core has counted that many Nodes of the pool.
func (f *fixture) awaitNodes(p *pool, want int) {
	f.t.Helper()
	testenv.Object(f.t, f.Client, p.MachinePool, fmt.Sprintf("core counts %d Nodes", want), func(mp *clusterv1.MachinePool) string {
		got, replicas := len(mp.Status.NodeRefs), int(ptr.Deref(mp.Status.Replicas, -1))
		return unless(got == want && replicas == want, "%d Nodes, %d replicas", got, replicas)
	})
}

// scale sets the replicas of the MachinePool.
func (f *fixture) scale(p *pool, replicas int32) {
	f.t.Helper()
	change(f.t, f.Suite, p.MachinePool, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = ptr.To(replicas) })
}

// members lists the HostMachines of a pool.
func (f *fixture) members(p *pool) []infrav1.HostMachine {
	f.t.Helper()
	list := &infrav1.HostMachineList{}
	f.list(list, client.MatchingLabels{clusterv1.MachinePoolNameLabel: p.Name})
	return list.Items
}

// machines lists the Machines of a pool.
func (f *fixture) machines(p *pool) []clusterv1.Machine {
	f.t.Helper()
	list := &clusterv1.MachineList{}
	f.list(list, client.MatchingLabels{clusterv1.MachinePoolNameLabel: p.Name})
	return list.Items
}

func (f *fixture) list(list client.ObjectList, options ...client.ListOption) {
	f.t.Helper()
	if err := f.Client.List(f.t.Context(), list, append(options, client.InNamespace(f.namespace))...); err != nil {
		f.t.Fatal(err)
	}
}

// unless returns what is wrong when a condition doesn't hold, else "".
func unless(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}
