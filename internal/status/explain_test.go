package status

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"

	"github.com/slipway-dev/slipway/internal/display"
)

func freeHost(name, rack string, mutate ...func(*infrav1.Host)) *infrav1.Host {
	h := host(name, nil, condition(infrav1.AgentConnectedCondition, "True", ""))
	h.Labels["rack"] = rack
	h.Status.CleanProof = &infrav1.CleanProof{}
	h.Status.Inventory.Architecture, h.Status.Inventory.KubernetesVersions = "amd64", []string{"v1.36.3"}
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	for _, m := range mutate {
		m(h)
	}
	return h
}

// explain looks at a pool member that waits, and at a machine of a Machine.
func explain(t *testing.T, name string, more ...client.Object) (Placement, error) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: named("c")}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostCluster", Name: "c"}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "plane"}
	member := hostMachine("workers-1", "c", condition(infrav1.HostClaimedCondition, "False", "No host available"))
	member.Labels[clusterv1.MachinePoolNameLabel] = "workers-x"
	member.OwnerReferences = []metav1.OwnerReference{ownedBy(infrav1.GroupVersion, "HostMachinePool", "workers")}
	member.Spec.Spread = &infrav1.SpreadDomain{Key: "rack", Value: "b"}
	pool := &clusterv1.MachinePool{ObjectMeta: named("workers-x")}
	pool.Spec.Template.Spec.Version = "v1.36.3"
	hostPool := &infrav1.HostMachinePool{ObjectMeta: named("workers")}
	hostPool.OwnerReferences = []metav1.OwnerReference{ownedBy(clusterv1.GroupVersion, "MachinePool", "workers-x")}
	single := hostMachine("cp-1", "c")
	machine := &clusterv1.Machine{ObjectMeta: named("cp-1")}
	machine.Spec.Version, machine.Spec.FailureDomain = "v1.35.4", "b"
	single.OwnerReferences = []metav1.OwnerReference{ownedBy(clusterv1.GroupVersion, "Machine", "cp-1")}
	adopting := hostMachine("adopts", "c", condition(infrav1.HostClaimedCondition, "False", "Host host-2 is clean"))
	adopting.Spec.Adopt.HostName = "host-2"
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		cluster, &infrav1.HostCluster{ObjectMeta: named("c"), Spec: infrav1.HostClusterSpec{FailureDomainLabel: "rack"}},
		member, pool, hostPool, single, machine, adopting,
		freeHost("host-1", "a"), freeHost("host-2", "b"),
		freeHost("host-3", "b", func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) }),
	}
	objects = append(objects, more...)
	return Explain(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), "", name)
}

func ownedBy(version schema.GroupVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version.String(), Kind: kind, Name: name}
}

// release is what makes the host that is kept back fit.
const release = "release with: slipway host uncordon host-3 -n default"

func TestExplain(t *testing.T) {
	p, err := explain(t, "workers-1")
	want := []PlacementHost{
		{"host-2", true, "in failure domain b", ""}, {"host-1", true, "outside failure domain b", ""}, {"host-3", false, "unschedulable", release},
	}
	if err != nil || p.Version != "v1.36.3" || !slices.Equal(p.Hosts, want) {
		t.Errorf("placement = %+v, %v", p, err)
	}
	out := display.NewPage(nil)
	if RenderPlacement(out, p); !strings.Contains(out.String(), "No host available") || !strings.Contains(out.String(), "host-3  false  unschedulable") {
		t.Errorf("%v\n%s", err, out.String())
	}
	p, err = explain(t, "default/cp-1")
	want = []PlacementHost{
		{"host-1", false, "not in failure domain b", ""}, {"host-2", false, "Kubernetes v1.35.4 not installed", ""}, {"host-3", false, "unschedulable", release},
	}
	if err != nil || !slices.Equal(p.Hosts, want) {
		t.Errorf("placement = %+v, %v", p, err)
	}
	if _, err := explain(t, "nobody"); err == nil || !strings.Contains(err.Error(), "these wait for a host: default/adopts, default/cp-1, default/workers-1") {
		t.Errorf("err = %v", err)
	}
}

// Hosts that are reserved for the control plane do not fit a worker.
func TestExplainControlPlaneFirst(t *testing.T) {
	plane := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "metadata": map[string]any{"namespace": "default", "name": "plane"},
		"spec": map[string]any{"replicas": int64(3), "machineTemplate": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{
			"apiGroup": infrav1.GroupVersion.Group, "kind": "HostMachineTemplate", "name": "plane",
		}}}},
	}}
	const reserved = "reserved for the control plane, which needs 3 more"
	p, err := explain(t, "workers-1", plane, &infrav1.HostMachineTemplate{ObjectMeta: named("plane")})
	if want := []PlacementHost{{"host-1", false, reserved, ""}, {"host-2", false, reserved, ""}, {"host-3", false, "unschedulable", release}}; err != nil || !slices.Equal(p.Hosts, want) {
		t.Errorf("placement = %+v, %v", p, err)
	}
}

// A machine that asks for one host has nothing to choose.
func TestExplainAdoption(t *testing.T) {
	p, err := explain(t, "adopts")
	if err != nil {
		t.Fatal(err)
	}
	want := []PlacementHost{
		{Name: "host-1", Reason: "spec.adopt asks for host-2"}, {Name: "host-2", Reason: "Host host-2 is clean"}, {Name: "host-3", Reason: "spec.adopt asks for host-2"},
	}
	if !slices.Equal(p.Hosts, want) {
		t.Errorf("hosts %+v", p.Hosts)
	}
}
