package judge

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// planted is a history made by hand. Each entry has the next revision, a second later.
type planted struct {
	entries []Entry
	now     time.Time
}

func (p *planted) add(cluster string, e Entry) *planted {
	if p.now.IsZero() {
		p.now = began
	}
	p.now = p.now.Add(time.Second)
	e.Seen, e.Cluster = p.now, cluster
	if e.Object != nil && e.Revision == 0 {
		e.Revision = uint64(p.now.Sub(began) / time.Second)
	}
	p.entries = append(p.entries, e)
	return p
}

func (p *planted) write(objects ...client.Object) *planted {
	for _, o := range objects {
		p.add(clusterOf(o), Entry{Verb: Written, Object: stored(o)})
	}
	return p
}

func (p *planted) unseen(o client.Object) *planted {
	return p.add(clusterOf(o), Entry{Verb: Written, Unseen: true, Object: stored(o)})
}

func (p *planted) remove(o client.Object) *planted {
	return p.add(clusterOf(o), Entry{Verb: Deleted, Object: stored(o)})
}

func (p *planted) lose(cluster string) *planted {
	return p.add(cluster, Entry{Verb: Lost, Text: "all"})
}

func (p *planted) find(cluster string) *planted {
	return p.add(cluster, Entry{Verb: Found, Text: "all"})
}

// wait lets time go by, until something that concerns nobody happens.
func (p *planted) wait(d time.Duration) *planted {
	p.now = p.now.Add(d)
	return p.add("", Entry{Verb: Injected, Text: "nothing"})
}

// clusterOf is where an object lives.
func clusterOf(o client.Object) string {
	if _, ok := o.(*corev1.Node); ok {
		return "local"
	}
	return Management
}

func stored(o client.Object) *unstructured.Unstructured {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: fields}
	switch o.(type) {
	case *infrav1.Host:
		u.SetKind("Host")
	case *infrav1.HostMachine:
		u.SetKind("HostMachine")
	case *infrav1.HostMachinePool:
		u.SetKind("HostMachinePool")
	case *clusterv1.Machine:
		u.SetKind("Machine")
	case *clusterv1.MachinePool:
		u.SetKind("MachinePool")
	case *clusterv1.MachineSet:
		u.SetKind("MachineSet")
	case *clusterv1.MachineDeployment:
		u.SetKind("MachineDeployment")
	case *clusterv1.Cluster:
		u.SetKind("Cluster")
	case *corev1.Node:
		u.SetKind("Node")
	default:
		panic(fmt.Sprintf("%T", o))
	}
	return u
}

// freeHost is free, and clean of its last claim.
func freeHost(name string, generation int64) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	h.Spec.ClaimGeneration = generation
	h.Status.CleanProof = &infrav1.CleanProof{ClaimGeneration: generation}
	h.Status.Phase = infrav1.HostPhaseAvailable
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
	return h
}

// claimedBy is the host as a machine takes it.
func claimedBy(name string, generation int64, machine string) *infrav1.Host {
	h := freeHost(name, generation)
	h.Status.CleanProof.ClaimGeneration--
	h.Status.Phase = infrav1.HostPhaseRunning
	h.Spec.Claim = &infrav1.HostClaim{MachineName: machine, ClusterName: "local", ClaimID: machine + "-claim"}
	return h
}

// hostMachine runs on a host.
func hostMachine(name, onHost string) *infrav1.HostMachine {
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "local"}}}
	m.Spec.ClaimID = name + "-claim"
	m.Spec.ProviderID = infrav1.ProviderID("default", onHost, m.Spec.ClaimID)
	m.Status.HostRef.Name = onHost
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue}}
	return m
}

// deleted is an object with the time of its deletion.
func deleted[T client.Object](o T, at time.Time) T {
	o.SetDeletionTimestamp(ptr.To(metav1.NewTime(at)))
	return o
}

// machine is the Machine of a HostMachine.
func machine(of *infrav1.HostMachine) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: of.Name}}
	m.Spec.InfrastructureRef.Name, m.Spec.ProviderID = of.Name, of.Spec.ProviderID
	return m
}

func node(m *infrav1.HostMachine, ready corev1.ConditionStatus) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.HostRef.Name}}
	n.Spec.ProviderID = m.Spec.ProviderID
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return n
}

func cluster(paused bool) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	c.Spec.Paused = &paused
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionTrue}}
	return c
}

func pool(members ...*infrav1.HostMachine) *infrav1.HostMachinePool {
	p := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool", Labels: map[string]string{clusterv1.ClusterNameLabel: "local"}}}
	for _, m := range members {
		p.Spec.ProviderIDList = append(p.Spec.ProviderIDList, m.Spec.ProviderID)
	}
	p.Status.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue}}
	return p
}

// waiting is a machine of the pool that has no host yet.
func waiting(name string) *infrav1.HostMachine {
	m := hostMachine(name, "host-1")
	m.Labels[clusterv1.MachinePoolNameLabel] = "pool"
	m.Spec.ProviderID, m.Status.HostRef.Name, m.Status.Conditions = "", "", nil
	return m
}

func machinePool(name string) *clusterv1.MachinePool {
	return &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// madeBy is a Machine with the object that made it.
func madeBy(m *clusterv1.Machine, maker client.Object) *clusterv1.Machine {
	m.OwnerReferences = controlledBy("MachineSet", maker)
	return m
}

func controlledBy(kind string, maker client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: maker.GetName(), Controller: ptr.To(true)}}
}

// set is a MachineSet of a MachineDeployment.
func set(name string, of *clusterv1.MachineDeployment) *clusterv1.MachineSet {
	return &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: controlledBy("MachineDeployment", of)}}
}

// setOfNobody is a MachineSet that a user made.
func setOfNobody(name string) *clusterv1.MachineSet {
	return &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func ofControlPlane(m *clusterv1.Machine, name string) *clusterv1.Machine {
	m.OwnerReferences = controlledBy("KubeadmControlPlane", setOfNobody(name))
	return m
}

func deployment() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "md"}}
}

// binds is a host of a cluster's control plane that reports the address as its own.
func binds(name, cluster string, term int32) *infrav1.Host {
	h := claimedBy(name, 1, "plane-"+name)
	h.Spec.Claim.ClusterName = cluster
	h.Status.VirtualIP = &infrav1.VirtualIPStatus{Address: "10.88.0.200", State: infrav1.VirtualIPHeld, Term: term}
	return h
}
