package testenv

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels/format"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ClusterName is the name of the Cluster that NewCluster makes.
const ClusterName = "c1"

// VirtualIP is the control-plane endpoint of that Cluster.
const VirtualIP = "10.88.0.200"

// VirtualIPPort is its port, which is not the default.
const VirtualIPPort = 8443

// NewCluster makes a Cluster whose infrastructure, a HostCluster, is provisioned.
func NewCluster(t *testing.T, c client.Client, namespace string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ClusterName},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "HostCluster", Name: ClusterName,
		}},
	}
	create(t, c, cluster)
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	updateStatus(t, c, cluster)
	create(t, c, &infrav1.HostCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ClusterName, OwnerReferences: []metav1.OwnerReference{owner("Cluster", cluster)}},
		Spec:       infrav1.HostClusterSpec{ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: VirtualIP, Port: VirtualIPPort}},
	})
	return cluster
}

// NewControlPlane makes a KubeadmControlPlane of that Cluster, whose machines ask for hosts with
// the labels. Nobody makes its machines.
func NewControlPlane(t *testing.T, c client.Client, namespace string, replicas int64, labels map[string]string) *unstructured.Unstructured {
	t.Helper()
	template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plane"}}
	if labels != nil {
		template.Spec.Template.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: labels}
	}
	create(t, c, template)
	plane := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "metadata": map[string]any{"namespace": namespace, "name": "plane"},
		"spec": map[string]any{"replicas": replicas, "version": Version, "machineTemplate": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{
			"apiGroup": infrav1.GroupVersion.Group, "kind": "HostMachineTemplate", "name": "plane",
		}}}},
	}}
	create(t, c, plane)
	cluster := &clusterv1.Cluster{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: ClusterName}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "plane"}
	if err := c.Update(context.Background(), cluster); err != nil {
		t.Fatal(err)
	}
	return plane
}

// OfControlPlane makes a machine one of a control plane.
func OfControlPlane(machine *clusterv1.Machine, m *infrav1.HostMachine) {
	machine.Labels = map[string]string{clusterv1.ClusterNameLabel: ClusterName, clusterv1.MachineControlPlaneLabel: ""}
	m.Labels = machine.Labels
}

// NewMachine makes a Machine with bootstrap data and its HostMachine, as a
// MachineSet would.
func NewMachine(t *testing.T, c client.Client, namespace, name string, mutate ...func(*clusterv1.Machine, *infrav1.HostMachine)) *infrav1.HostMachine {
	t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: ClusterName}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachineSpec{
			ClusterName: ClusterName,
			Version:     Version,
			Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-" + name)},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: name,
			},
		},
	}
	hostMachine := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	for _, m := range mutate {
		m(machine, hostMachine)
	}
	create(t, c, machine)
	hostMachine.OwnerReferences = []metav1.OwnerReference{owner("Machine", machine)}
	create(t, c, hostMachine)
	return hostMachine
}

// BootstrapData is what NewMachinePool puts into the bootstrap Secret of a pool.
const BootstrapData = "#cloud-config\nruncmd: [true]\n"

// NewMachinePool makes a MachinePool with bootstrap data and its HostMachinePool.
func NewMachinePool(t *testing.T, c client.Client, namespace, name string, replicas int32, mutate ...func(*clusterv1.MachinePool, *infrav1.HostMachinePool)) (*clusterv1.MachinePool, *infrav1.HostMachinePool) {
	t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: ClusterName}
	machinePool := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: ClusterName,
			Replicas:    ptr.To(replicas),
			Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: ClusterName,
				Version:     Version,
				Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-" + name)},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachinePool", Name: name,
				},
			}},
		},
	}
	pool := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
	for _, m := range mutate {
		m(machinePool, pool)
	}
	if name := machinePool.Spec.Template.Spec.Bootstrap.DataSecretName; name != nil {
		create(t, c, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: *name, Labels: labels},
			Type:       clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(BootstrapData)},
		})
	}
	create(t, c, machinePool)
	pool.OwnerReferences = []metav1.OwnerReference{owner("MachinePool", machinePool)}
	create(t, c, pool)
	return machinePool, pool
}

// NewMember makes a HostMachine as a pool does, without a Machine.
func NewMember(t *testing.T, c client.Client, machinePool *clusterv1.MachinePool, pool *infrav1.HostMachinePool, name string) *infrav1.HostMachine {
	t.Helper()
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: pool.Namespace, Name: name,
		Labels: map[string]string{
			clusterv1.ClusterNameLabel:     machinePool.Spec.ClusterName,
			clusterv1.MachinePoolNameLabel: format.MustFormatValue(machinePool.Name),
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: pool.Name, UID: pool.UID,
		}},
	}}
	create(t, c, m)
	return m
}

// NameNodes lets core's MachinePool name Nodes, with its infrastructure provisioned.
func NameNodes(t *testing.T, c client.Client, p *clusterv1.MachinePool, nodes ...string) {
	t.Helper()
	p.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	p.Status.NodeRefs = nil
	for _, node := range nodes {
		p.Status.NodeRefs = append(p.Status.NodeRefs, corev1.ObjectReference{Kind: "Node", Name: node})
	}
	if err := c.Status().Update(context.Background(), p); err != nil {
		t.Fatal(err)
	}
}

// PlayCore makes the Machine of every HostMachine of a pool that has none, and
// takes deleted Machines through deletion, as core's controllers would.
func PlayCore(t *testing.T, c client.Client, machinePool *clusterv1.MachinePool) {
	t.Helper()
	ctx := context.Background()
	members := client.MatchingLabels{
		clusterv1.ClusterNameLabel:     machinePool.Spec.ClusterName,
		clusterv1.MachinePoolNameLabel: format.MustFormatValue(machinePool.Name),
	}
	hostMachines := &infrav1.HostMachineList{}
	if err := c.List(ctx, hostMachines, client.InNamespace(machinePool.Namespace), members); err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for i := range hostMachines.Items {
		exists[hostMachines.Items[i].Name] = true
		playMachine(t, c, machinePool, &hostMachines.Items[i], members)
	}
	machines := &clusterv1.MachineList{}
	if err := c.List(ctx, machines, client.InNamespace(machinePool.Namespace), members); err != nil {
		t.Fatal(err)
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.DeletionTimestamp.IsZero() || exists[m.Name] {
			continue
		}
		m.Finalizers = nil
		if err := c.Update(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
}

func playMachine(t *testing.T, c client.Client, machinePool *clusterv1.MachinePool, hostMachine *infrav1.HostMachine, labels map[string]string) {
	t.Helper()
	ctx := context.Background()
	machine := &clusterv1.Machine{}
	err := c.Get(ctx, client.ObjectKeyFromObject(hostMachine), machine)
	switch {
	case err == nil && !machine.DeletionTimestamp.IsZero() && hostMachine.DeletionTimestamp.IsZero():
		// The Node is drained at once here; then the infrastructure goes.
		if err := c.Delete(ctx, hostMachine); err != nil {
			t.Fatal(err)
		}
	case err == nil:
	case client.IgnoreNotFound(err) != nil:
		t.Fatal(err)
	default:
		ref := owner("MachinePool", machinePool)
		ref.Controller = ptr.To(true)
		create(t, c, &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: hostMachine.Namespace, Name: hostMachine.Name, Labels: labels,
				Finalizers: []string{clusterv1.MachineFinalizer}, OwnerReferences: []metav1.OwnerReference{ref},
			},
			Spec: clusterv1.MachineSpec{
				ClusterName: machinePool.Spec.ClusterName,
				Bootstrap:   clusterv1.Bootstrap{DataSecretName: ptr.To("")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{
					APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: hostMachine.Name,
				},
			},
		})
	}
}

func owner(kind string, o client.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID()}
}

func create(t testing.TB, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(context.Background(), o); err != nil {
		t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

func updateStatus(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Status().Update(context.Background(), o); err != nil {
		t.Fatalf("update the status of %T %s: %v", o, o.GetName(), err)
	}
}
