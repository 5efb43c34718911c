package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// A Cluster of our ClusterClass, made and run by upstream's topology controller and
// kubeadm control plane, goes to another management cluster and back. The ClusterClass
// and its templates go along; the controllers there find all as it should be, and make
// and delete nothing.
func TestMoveTopology(t *testing.T) {
	begin(t, 2)
	w := newWorld(t, judge.NewKit())
	a, b := newManagement(t, w.kit), newManagement(t, w.kit)
	for i := range 4 {
		m := newMachine(t, a, w.nodes, fmt.Sprintf("host-%d", i+1))
		w.machines = append(w.machines, m)
		m.on()
	}
	w.makeTopology(a)
	const machines = 3
	w.awaitTopology(a, machines)
	everythingIsOwned(t, a, "ClusterClass", "HostClusterTemplate", "HostMachineTemplate", "HostMachinePoolTemplate",
		"KubeadmControlPlaneTemplate", "KubeadmConfigTemplate", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "MachinePool")

	nodes, claims, objects := w.nodeUIDs(), w.claims(a), a.specs()
	for _, route := range []struct{ from, to *management }{{a, b}, {b, a}} {
		route.from.handOver(route.to)
		w.awaitReadyToMove(route.from)
		route.from.run("move", "-n", team, "--to-kubeconfig", route.to.kubeconfig)
		moved := route.to.uids()
		w.awaitTopology(route.to, machines)
		assertSame(t, "specs", route.to.specs(), objects)
		assertSame(t, "UIDs", route.to.uids(), moved)
		if got := w.claims(route.to); !equality.Semantic.DeepEqual(got, claims) {
			t.Errorf("claims are %v, and were %v", got, claims)
		}
		w.nothingHappened(nodes)
		route.from.isLeft()
		route.from.deleteHandOver()
	}

	// The topology controller still does what it is told.
	a.change(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: clusterName}}, func(o client.Object) {
		o.(*clusterv1.Cluster).Spec.Topology.Workers.MachineDeployments[0].Replicas = ptr.To[int32](2)
	})
	w.awaitTopology(a, machines+1)
	w.nothingHappened(nodes)
}

// makeTopology makes the Cluster that clusterctl generates, with a machine deployment
// besides the pool.
func (w *world) makeTopology(home *management) {
	w.t.Helper()
	home.env = []string{"SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST=10.88.0.200"}
	generated := home.run("generate", "cluster", clusterName, "--infrastructure", "slipway:"+oldVersion, "--flavor", "clusterclass",
		"--kubernetes-version", kubernetesV, "--target-namespace", team, "--worker-machine-count", "1")
	objects, err := judge.Decode([]byte(generated))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == "Cluster" {
			err = errors.Join(
				unstructured.SetNestedField(object.Object, true, "spec", "paused"),
				unstructured.SetNestedSlice(object.Object, []any{map[string]any{"class": "default-worker", "name": "md", "replicas": int64(1)}},
					"spec", "topology", "workers", "machineDeployments"))
		}
		if err != nil {
			w.t.Fatal(err)
		}
		home.create(object)
	}
	w.giveKubeconfig(home)
	home.unpause()
	w.initialize()
}

// initialize leaves behind what kubeadm does when the first node is there. The control
// plane takes it for the sign that workers may join.
func (w *world) initialize() {
	w.t.Helper()
	eventually(w.t, "the first node is there", func(ctx context.Context) error {
		nodes := &corev1.NodeList{}
		if err := w.workload.Client.List(ctx, nodes); err != nil {
			return err
		}
		if len(nodes.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	err := w.workload.Client.Create(w.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " + kubernetesV + "\n"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// giveKubeconfig makes the Secret with which Cluster API reaches the workload cluster,
// before the control plane makes one: its type says that it is the user's.
func (w *world) giveKubeconfig(home *management) {
	w.t.Helper()
	cluster := &clusterv1.Cluster{}
	if err := home.Client.Get(w.t.Context(), client.ObjectKey{Namespace: team, Name: clusterName}, cluster); err != nil {
		w.t.Fatal(err)
	}
	data, err := judge.Kubeconfig(w.workload.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	given := &corev1.Secret{ObjectMeta: meta(secret.Name(clusterName, secret.Kubeconfig)), Data: map[string][]byte{secret.KubeconfigDataName: data}}
	given.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}}
	home.create(given)
}

// awaitTopology waits until upstream's controllers are done with the Cluster and all
// its machines run.
func (w *world) awaitTopology(m *management, count int) {
	w.t.Helper()
	eventually(w.t, "the topology runs", func(ctx context.Context) error {
		cluster := &clusterv1.Cluster{}
		if err := m.Client.Get(ctx, client.ObjectKey{Namespace: team, Name: clusterName}, cluster); err != nil {
			return err
		}
		if c := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != cluster.Generation {
			return fmt.Errorf("the topology: %+v", c)
		}
		if !conditions.IsTrue(cluster, clusterv1.ClusterControlPlaneInitializedCondition) {
			return errors.New("core does not know that the control plane is initialized")
		}
		planes := &controlplanev1.KubeadmControlPlaneList{}
		if err := m.Client.List(ctx, planes, client.InNamespace(team)); err != nil {
			return err
		}
		for i := range planes.Items {
			plane := &planes.Items[i]
			if ptr.Deref(plane.Status.Replicas, 0) != 1 || ptr.Deref(plane.Status.UpToDateReplicas, 0) != 1 || plane.Status.ObservedGeneration != plane.Generation {
				return fmt.Errorf("KubeadmControlPlane %+v", plane.Status)
			}
		}
		pools := &clusterv1.MachinePoolList{}
		if err := m.Client.List(ctx, pools, client.InNamespace(team)); err != nil {
			return err
		}
		for i := range pools.Items {
			// Core takes the list from the pool of hosts, after the Machines run.
			if pool := &pools.Items[i]; len(pool.Spec.ProviderIDList) != int(ptr.Deref(pool.Spec.Replicas, 0)) {
				return fmt.Errorf("MachinePool %s has the providerIDs %v", pool.Name, pool.Spec.ProviderIDList)
			}
		}
		machines := &clusterv1.MachineList{}
		if err := m.Client.List(ctx, machines, client.InNamespace(team)); err != nil {
			return err
		}
		if len(machines.Items) != count || len(planes.Items) != 1 {
			return fmt.Errorf("%d Machines, %d control planes", len(machines.Items), len(planes.Items))
		}
		for _, machine := range machines.Items {
			if !machine.Status.NodeRef.IsDefined() || machine.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("Machine %s is %s", machine.Name, machine.Status.Phase)
			}
		}
		return w.hostsAre(ctx, m, count)
	})
}

// kept are the objects that are to be the same after a move, by kind and name.
func (m *management) kept() map[string]unstructured.Unstructured {
	m.t.Helper()
	kept := map[string]unstructured.Unstructured{}
	for _, o := range m.discovered() {
		name := o.GetKind() + "/" + o.GetName()
		// Tokens and locks come and go.
		if o.GetKind() != "Secret" && o.GetKind() != "ConfigMap" && !slices.Contains(stays, name) {
			kept[name] = o
		}
	}
	return kept
}

// specs are what the objects are to be.
func (m *management) specs() map[string]string {
	m.t.Helper()
	specs := map[string]string{}
	for name, o := range m.kept() {
		if paused, found, _ := unstructured.NestedBool(o.Object, "spec", "paused"); found && !paused {
			unstructured.RemoveNestedField(o.Object, "spec", "paused")
		}
		specs[name] = fmt.Sprint(o.Object["spec"])
	}
	return specs
}

func (m *management) uids() map[string]types.UID {
	m.t.Helper()
	uids := map[string]types.UID{}
	for name, o := range m.kept() {
		uids[name] = o.GetUID()
	}
	return uids
}

func assertSame[V comparable](t *testing.T, what string, got, want map[string]V) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, ok := got[name]; !ok || value != want[name] {
			t.Errorf("%s: %s was %v and is %v", what, name, want[name], value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s was not there before", what, name)
		}
	}
}

// isLeft checks that nothing of the Cluster is left in a management cluster.
func (m *management) isLeft() {
	m.t.Helper()
	if left := slices.Sorted(maps.Keys(m.kept())); len(left) > 0 {
		m.t.Errorf("the source still has %s", strings.Join(left, ", "))
	}
	hosts := &infrav1.HostList{}
	if err := m.Client.List(m.t.Context(), hosts, client.InNamespace(team)); err != nil || len(hosts.Items) > 0 {
		m.t.Errorf("the source still has %d Hosts, %v", len(hosts.Items), err)
	}
}
