package inputs_test

import (
	"errors"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/placement/inputs"
)

const namespace = "tenant"

func reader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func meta(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners}
}

func ownedBy(version schema.GroupVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version.String(), Kind: kind, Name: name}
}

// world is a Cluster with a single machine and a member of a pool.
func world() (objects []client.Object, cluster *clusterv1.Cluster, single, member *infrav1.HostMachine) {
	cluster = &clusterv1.Cluster{ObjectMeta: meta("c")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostCluster", Name: "c"}
	hostCluster := &infrav1.HostCluster{ObjectMeta: meta("c"), Spec: infrav1.HostClusterSpec{FailureDomainLabel: "rack"}}

	machine := &clusterv1.Machine{ObjectMeta: meta("cp")}
	machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	machine.Spec.Version, machine.Spec.FailureDomain = "v1.36.3", "a"
	machine.Spec.Bootstrap.DataSecretName = ptr.To("cp-data")
	// A reference of another version of the API is the same owner.
	single = &infrav1.HostMachine{ObjectMeta: meta("cp", metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: "cp"})}

	machinePool := &clusterv1.MachinePool{ObjectMeta: meta("workers")}
	machinePool.Spec.FailureDomains = []string{"a", "b"}
	machinePool.Spec.Template.Spec.Version = "v1.35.4"
	pool := &infrav1.HostMachinePool{ObjectMeta: meta("pool", ownedBy(clusterv1.GroupVersion, "MachinePool", "workers"))}
	pool.Spec.Placement.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	member = &infrav1.HostMachine{ObjectMeta: meta("pool-1", ownedBy(infrav1.GroupVersion, "HostMachinePool", "pool"))}
	member.Labels = map[string]string{clusterv1.MachinePoolNameLabel: "workers"}
	member.Spec.Placement = pool.Spec.Placement
	return []client.Object{cluster, hostCluster, machine, single, machinePool, pool, member}, cluster, single, member
}

func TestRequestFor(t *testing.T) {
	objects, cluster, single, member := world()
	c := reader(t, objects...)
	request := func(m *infrav1.HostMachine, cluster *clusterv1.Cluster) placement.Request {
		t.Helper()
		owner, err := inputs.OwnerOf(t.Context(), c, m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := inputs.RequestFor(t.Context(), c, m, owner, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := placement.Request{Version: "v1.36.3", FailureDomains: []string{"a"}, FailureDomainLabel: "rack"}
	if got := request(single, cluster); !reflect.DeepEqual(got, want) {
		t.Errorf("a machine asks for %+v, want %+v", got, want)
	}
	want = placement.Request{Version: "v1.35.4", FailureDomains: []string{"a", "b"}, FailureDomainLabel: "rack", Placement: member.Spec.Placement}
	if got := request(member, cluster); !reflect.DeepEqual(got, want) {
		t.Errorf("a member of a pool asks for %+v, want %+v", got, want)
	}
	// What a pool counts hosts for is what its next member asks for.
	pool, machinePool := objects[5].(*infrav1.HostMachinePool), objects[4].(*clusterv1.MachinePool)
	if got, err := inputs.RequestForMember(t.Context(), c, pool, machinePool, cluster); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a pool counts hosts for %+v, %v, want %+v", got, err, want)
	}
	// The machine's own version wins over its owner's.
	member.Spec.Version, member.Spec.HostName = "v1.37.0", "host-1"
	if got := request(member, nil); got.Version != "v1.37.0" || got.HostName != "host-1" || got.FailureDomainLabel != "" {
		t.Errorf("asks for %+v", got)
	}
	// Infrastructure of another provider has nothing to say about hosts.
	cluster.Spec.InfrastructureRef.APIGroup = "infrastructure.example.com"
	if got := request(single, cluster); got.FailureDomainLabel != "" {
		t.Errorf("asks for %+v", got)
	}
}

func TestOwnerOf(t *testing.T) {
	objects, _, single, member := world()
	owner, err := inputs.OwnerOf(t.Context(), reader(t, objects...), single)
	if err != nil || !owner.ControlPlane || owner.BootstrapSecret != "cp-data" || owner.Description != "Machine cp" {
		t.Errorf("owner %+v, %v", owner, err)
	}
	for _, m := range []*infrav1.HostMachine{single, member, {ObjectMeta: meta("alone")}} {
		if owner, err := inputs.OwnerOf(t.Context(), reader(t), m); owner != nil || err != nil {
			t.Errorf("owner of %s that is gone: %+v, %v", m.Name, owner, err)
		}
	}
}
