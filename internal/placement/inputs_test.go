package placement_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

const namespace = "tenant"

func reader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
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
	single.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}

	machinePool := &clusterv1.MachinePool{ObjectMeta: meta("workers")}
	machinePool.Spec.ClusterName = "c"
	machinePool.Spec.FailureDomains = []string{"a", "b"}
	machinePool.Spec.Template.Spec.Version = "v1.35.4"
	pool := &infrav1.HostMachinePool{ObjectMeta: meta("pool", ownedBy(clusterv1.GroupVersion, "MachinePool", "workers"))}
	pool.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
	member = &infrav1.HostMachine{ObjectMeta: meta("pool-1", ownedBy(infrav1.GroupVersion, "HostMachinePool", "pool"))}
	member.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachinePoolNameLabel: "workers"}
	member.Spec.Placement = pool.Spec.Placement
	return []client.Object{cluster, hostCluster, machine, single, machinePool, pool, member}, cluster, single, member
}

func TestRequestFor(t *testing.T) {
	objects, cluster, single, member := world()
	c := reader(t, objects...)
	request := func(m *infrav1.HostMachine, cluster *clusterv1.Cluster) placement.Request {
		t.Helper()
		owner, err := placement.OwnerOf(t.Context(), c, m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := placement.RequestFor(t.Context(), c, m, owner, cluster)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := placement.Request{Version: "v1.36.3", FailureDomains: []string{"a"}, FailureDomainLabel: "rack", ClusterName: "c"}
	if got := request(single, cluster); !reflect.DeepEqual(got, want) {
		t.Errorf("a machine asks for %+v, want %+v", got, want)
	}
	want = placement.Request{Version: "v1.35.4", FailureDomains: []string{"a", "b"}, FailureDomainLabel: "rack", ClusterName: "c", MachinePool: "workers", Placement: member.Spec.Placement}
	if got := request(member, cluster); !reflect.DeepEqual(got, want) {
		t.Errorf("a member of a pool asks for %+v, want %+v", got, want)
	}
	// What a pool counts hosts for is what its next member asks for.
	pool, machinePool := objects[5].(*infrav1.HostMachinePool), objects[4].(*clusterv1.MachinePool)
	if got, err := placement.RequestForMember(t.Context(), c, pool, machinePool, cluster); err != nil || !reflect.DeepEqual(got, want) {
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
	owner, err := placement.OwnerOf(t.Context(), reader(t, objects...), single)
	if err != nil || !owner.ControlPlane || owner.BootstrapSecret != "cp-data" || owner.Description != "Machine cp" {
		t.Errorf("owner %+v, %v", owner, err)
	}
	for _, m := range []*infrav1.HostMachine{single, member, {ObjectMeta: meta("alone")}} {
		if owner, err := placement.OwnerOf(t.Context(), reader(t), m); owner != nil || err != nil {
			t.Errorf("owner of %s that is gone: %+v, %v", m.Name, owner, err)
		}
	}
}

// Each object of the chain above a machine counts, also where only its metadata can be read.
func TestMachineLeaves(t *testing.T) {
	controlPlane := func() client.Object {
		return &controlplanev1.KubeadmControlPlane{ObjectMeta: meta("plane")}
	}
	memberMachine := func(of string) client.Object {
		return &clusterv1.Machine{ObjectMeta: meta("pool-1"), Spec: clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: of,
		}}}
	}
	for name, tc := range map[string]struct {
		// leaves is deleted, at is what it is in world.
		at   int
		gone bool
		pool bool
		// more is one more object, the last one.
		more client.Object
		// kind of what made the Machine, if it is not a KubeadmControlPlane.
		kind string
		want string
	}{
		"nothing":                    {at: -1},
		"nothing of a pool":          {at: -1, pool: true},
		"Cluster":                    {at: 0, want: "Cluster c is being deleted"},
		"Cluster, gone":              {at: 0, gone: true, want: "Cluster c is gone"},
		"Machine":                    {at: 2, want: "Machine cp is being deleted"},
		"Machine, gone":              {at: 2, gone: true, want: "The owner of HostMachine cp is gone"},
		"HostMachine":                {at: 3, want: "HostMachine cp is being deleted"},
		"HostMachine, gone":          {at: 3, gone: true, want: "HostMachine cp is gone"},
		"MachinePool":                {at: 4, pool: true, want: "MachinePool workers is being deleted"},
		"MachinePool, gone":          {at: 4, gone: true, pool: true, want: "The owner of HostMachine pool-1 is gone"},
		"HostMachinePool":            {at: 5, pool: true, want: "HostMachinePool pool is being deleted"},
		"KubeadmControlPlane":        {at: 7, want: "KubeadmControlPlane plane is being deleted"},
		"KubeadmControlPlane, gone":  {at: 7, gone: true},
		"other control plane":        {at: 8, more: other("plane"), kind: otherPlane.Kind, want: "OtherControlPlane plane is being deleted"},
		"other control plane, there": {at: -1, more: other("plane"), kind: otherPlane.Kind},
		"other control plane, gone":  {at: -1, kind: otherPlane.Kind},
		"Machine of a pool":          {at: 8, more: memberMachine("pool-1"), pool: true, want: "Machine pool-1 is being deleted"},
		"Machine of a pool, there":   {at: -1, more: memberMachine("pool-1"), pool: true},
		"Machine of its name":        {at: 8, more: memberMachine("other"), pool: true},
		"pool of another, a Machine": {at: 2, pool: true},
		"Machine of another, a pool": {at: 5},
	} {
		t.Run(name, func(t *testing.T) {
			objects, _, single, member := world()
			machine, plane := objects[2], controlPlane()
			machine.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "controlplane.cluster.x-k8s.io/v1beta1", Kind: "KubeadmControlPlane", Name: "plane", Controller: ptr.To(true),
			}})
			objects = append(objects, plane)
			if tc.more != nil {
				objects = append(objects, tc.more)
			}
			if tc.kind != "" {
				ref := &machine.GetOwnerReferences()[0]
				machine.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: otherPlane.GroupVersion().String(), Kind: tc.kind, Name: ref.Name, Controller: ptr.To(true)}})
			}
			if tc.at >= 0 && !tc.gone {
				objects[tc.at].SetFinalizers([]string{"example.com/held-up"})
				objects[tc.at].SetDeletionTimestamp(ptr.To(metav1.Now()))
			}
			if tc.gone {
				objects = slices.Delete(objects, tc.at, tc.at+1)
			}
			m := single
			if tc.pool {
				m = member
			}
			if got, err := placement.MachineLeaves(t.Context(), reader(t, objects...), m, "c"); err != nil || got != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// other is a control plane of another provider, of which only the metadata counts.
func other(name string) client.Object {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(otherPlane)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func TestPoolLeaves(t *testing.T) {
	for at, want := range map[int]string{-1: "", 0: "Cluster c is being deleted", 4: "MachinePool workers is being deleted", 5: "HostMachinePool pool is being deleted"} {
		objects, _, _, _ := world()
		pool, machinePool := objects[5].(*infrav1.HostMachinePool).DeepCopy(), objects[4].(*clusterv1.MachinePool).DeepCopy()
		if at >= 0 {
			objects[at].SetFinalizers([]string{"example.com/held-up"})
			objects[at].SetDeletionTimestamp(ptr.To(metav1.Now()))
		}
		if got, err := placement.PoolLeaves(t.Context(), reader(t, objects...), pool, machinePool); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
}

// A free host is a candidate again only when nothing is left by which Cluster API would
// delete a Node of its name.
func TestFormersHoldAHostBack(t *testing.T) {
	const claimed = "claimed"
	free := &infrav1.Host{ObjectMeta: meta("host-1")}
	free.Status.CleanProof, free.Status.BootID = &infrav1.CleanProof{}, "boot"
	free.Status.Inventory.Architecture, free.Status.Capacity = "amd64", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	free.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
	free.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "node-1"}}
	formerID := infrav1.ProviderID(namespace, "host-1", claimed)
	hostMachine := &infrav1.HostMachine{ObjectMeta: meta("m"), Spec: infrav1.HostMachineSpec{ProviderID: formerID}}
	machine := &clusterv1.Machine{ObjectMeta: meta("m"), Spec: clusterv1.MachineSpec{ProviderID: formerID}}
	naming := func(pool, cluster, node string) *clusterv1.MachinePool {
		p := &clusterv1.MachinePool{ObjectMeta: meta(pool), Spec: clusterv1.MachinePoolSpec{ClusterName: cluster}}
		p.Status.NodeRefs = []corev1.ObjectReference{{Name: node}}
		return p
	}
	for name, tc := range map[string]struct {
		left client.Object
		pool string
		want string
	}{
		"nothing":                      {left: naming("other", "c", "host-2")},
		"its HostMachine":              {left: hostMachine, want: "its former HostMachine m is still there"},
		"its Machine, before it goes":  {left: machine, want: "its former Machine m is still there"},
		"another pool":                 {left: naming("other", "c", "host-1"), want: "MachinePool other still names its former Node"},
		"another pool, by its system":  {left: naming("other", "c", "node-1"), want: "MachinePool other still names its former Node"},
		"the machine's own pool":       {left: naming("own", "c", "host-1"), pool: "own"},
		"a pool of another cluster":    {left: naming("other", "c2", "host-1")},
		"another pool than a member's": {left: naming("other", "c", "host-1"), pool: "own", want: "MachinePool other still names its former Node"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, err := placement.Read(t.Context(), reader(t, free, tc.left), namespace)
			if err != nil || len(snapshot.Hosts) != 1 {
				t.Fatalf("%+v, %v", snapshot, err)
			}
			requirements, err := placement.Parse(placement.Request{ClusterName: "c", MachinePool: tc.pool})
			if err != nil {
				t.Fatal(err)
			}
			if got := snapshot.Judge(requirements, snapshot.Hosts[0]).Reason; got != tc.want {
				t.Errorf("rejected: %q, want %q", got, tc.want)
			}
		})
	}
	// The machine that has the host is no former one.
	free.Spec.Claim = &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: claimed}
	snapshot, err := placement.Read(t.Context(), reader(t, hostMachine, machine), namespace)
	if err != nil || snapshot.Former(free).Machine != "" {
		t.Errorf("the machine of the claim is left of an earlier one: %+v, %v", snapshot.Former(free), err)
	}
}
