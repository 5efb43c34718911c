package provider

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// machineRules follow "Contract rules for InfraMachine", contract version v1beta2. A Machine of a
// control plane and one of a MachineSet are evaluated.
var machineRules = []Rule{
	{"scope", true, namespaced},
	{"typeMeta", true, metaOfResources},
	{"group", true, coreHasRights},
	{"version", true, contractLabels},
	{"resources", true, machineResources},
	{"providerID", true, machineProviderID},
	{"failureDomain", false, machineFailureDomain},
	{"addresses", false, machineAddresses},
	{"initialization", true, machineInitialization},
	{"conditions", false, machineConditions},
	{"terminalFailures", false, machineTerminalFailures},
	{"template", true, machineTemplate},
	{"pausing", false, machinePausing},
	{"autoscaling", false, machineAutoscaling},
	{"noOwner", true, machineWithoutOwner},
	{"noBootstrapData", true, machineWithoutData},
	{"deleted", true, machineDeleted},
}

// machineOf is a Machine with its HostMachine, as core reads that.
type machineOf struct {
	*clusterv1.Machine
	infra *unstructured.Unstructured
}

// newRunningMachines makes a Machine of a control plane and one of a MachineSet, and waits until
// both have a Node.
func newRunningMachines(t *testing.T, s *Suite) (f *fixture, machines []machineOf, worker *simulatedHost) {
	t.Helper()
	f = newReadyFixture(t, s)
	f.addControlPlane()
	worker = s.addHost(t, f.namespace, "h1")
	f.newMachineSet(1)
	return f, f.awaitRunning(2), worker
}

// awaitRunning waits for so many Machines with a Node.
func (f *fixture) awaitRunning(want int) (machines []machineOf) {
	f.t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: clusterName}}
	testenv.Object(f.t, f.Client, cluster, fmt.Sprintf("%d Machines run", want), func(*clusterv1.Cluster) string {
		list := &clusterv1.MachineList{}
		f.list(list)
		machines = nil
		for i := range list.Items {
			if m := &list.Items[i]; m.Status.NodeRef.IsDefined() && m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
				machines = append(machines, machineOf{Machine: m})
			}
		}
		return unless(len(machines) == want && len(list.Items) == want, "%d of %d", len(machines), len(list.Items))
	})
	for i := range machines {
		m := &machines[i]
		m.infra = f.asCoreReads(f.t, "HostMachine", client.ObjectKey{Namespace: f.namespace, Name: m.Spec.InfrastructureRef.Name})
	}
	return machines
}

// InfraMachine, its list and its CRD name.
func machineResources(t *testing.T, s *Suite) {
	s.crd(t, "HostMachine")
	s.checkList(t, "HostMachine", s.namespaceFor(t))
}

// The template of the machine, its list and its CRD name.
func machineTemplate(t *testing.T, s *Suite) {
	s.crd(t, "HostMachineTemplate")
	s.checkList(t, "HostMachineTemplate", s.namespaceFor(t))
}

// spec.providerID is that of the Node, and core takes it over.
func machineProviderID(t *testing.T, s *Suite) {
	_, machines, _ := newRunningMachines(t, s)
	for _, m := range machines {
		node := &corev1.Node{}
		if err := s.Workload.Client.Get(t.Context(), client.ObjectKey{Name: m.Status.NodeRef.Name}, node); err != nil {
			t.Fatal(err)
		}
		id, _, _ := unstructured.NestedString(m.infra.Object, "spec", "providerID")
		if id == "" || id != node.Spec.ProviderID || id != m.Spec.ProviderID {
			t.Errorf("%s has providerID %q, its Node %q, its Machine %q", m.infra.GetName(), id, node.Spec.ProviderID, m.Spec.ProviderID)
		}
	}
}

// spec.failureDomain of the Machine binds, and status.failureDomain is where it is.
func machineFailureDomain(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	for name, rack := range map[string]string{"h1": "r1", "h2": "r2", "h3": "r3"} {
		s.addHost(t, f.namespace, name, func(h *infrav1.Host) { h.Spec.FailureDomain = rack })
	}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.newMachineSet(0)}}
	change(t, s, set, func(set *clusterv1.MachineSet) {
		set.Spec.Template.Spec.FailureDomain, set.Spec.Replicas = "r2", ptr.To(int32(1))
	})
	for _, m := range f.awaitRunning(2) {
		if m.Spec.FailureDomain == "" {
			continue
		}
		if domain, _, _ := unstructured.NestedString(m.infra.Object, "status", "failureDomain"); domain != "r2" || m.Status.NodeRef.Name != f.namespace+"-h2" {
			t.Errorf("a Machine of r2 is in %q, on %s", domain, m.Status.NodeRef.Name)
		}
		testenv.Object(t, s.Client, m.Machine, "the Machine has the failure domain", func(m *clusterv1.Machine) string {
			return unless(m.Status.FailureDomain == "r2", "%q", m.Status.FailureDomain)
		})
		return
	}
	t.Error("no Machine has a failure domain")
}

// addressTypes are those that the contract accepts.
var addressTypes = []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}

// status.addresses is what core copies to the Machine.
func machineAddresses(t *testing.T, s *Suite) {
	_, machines, _ := newRunningMachines(t, s)
	for _, m := range machines {
		addresses, _, err := unstructured.NestedSlice(m.infra.Object, "status", "addresses")
		if err != nil || len(addresses) == 0 || len(addresses) != len(m.Status.Addresses) {
			t.Errorf("%s has addresses %v, its Machine %v: %v", m.infra.GetName(), addresses, m.Status.Addresses, err)
		}
		for i, item := range addresses {
			address, _ := item.(map[string]any)
			kind, _ := address["type"].(string)
			if !slices.Contains(addressTypes, kind) || i < len(m.Status.Addresses) && address["address"] != m.Status.Addresses[i].Address {
				t.Errorf("address %v, the Machine has %v", item, m.Status.Addresses)
			}
		}
	}
}

// Core goes on once the machine is provisioned, and not before it has a host. It is never taken back.
func machineInitialization(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	f.newMachineSet(1)
	waiting := &clusterv1.Machine{}
	testenv.Object(t, s.Client, f.cluster, "a Machine waits for a host", func(*clusterv1.Cluster) string {
		machines := f.machinesOf(clusterv1.MachineSetNameLabel)
		if len(machines) != 1 || machines[0].Spec.InfrastructureRef.Name == "" {
			return fmt.Sprintf("%d Machines", len(machines))
		}
		waiting = &machines[0]
		return ""
	})
	s.passTime(t)
	key := client.ObjectKey{Namespace: f.namespace, Name: waiting.Spec.InfrastructureRef.Name}
	if fields := initialized(s.asCoreReads(t, "HostMachine", key)); len(fields) > 0 {
		t.Errorf("initialized without a host: %v", fields)
	}
	host := s.addHost(t, f.namespace, "h1")
	f.awaitRunning(2)
	want := []string{map[Contract]string{V1Beta1: "ready", V1Beta2: "provisioned"}[s.Contract]}
	provisioned := func(when string) {
		t.Helper()
		if got := initialized(s.asCoreReads(t, "HostMachine", key)); !slices.Equal(got, want) {
			t.Errorf("initialized %s: %v, want %v", when, got, want)
		}
	}
	provisioned("with a Node")
	testenv.Object(t, s.Client, waiting, "core knows", func(m *clusterv1.Machine) string {
		return unless(ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false), "not provisioned")
	})
	f.sicken(host.key.Name)
	testenv.Object(t, s.Client, waiting, "core finds the Node unhealthy", func(m *clusterv1.Machine) string {
		return unless(!conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition), "healthy")
	})
	provisioned("with a Node that is not ready")
}

// Conditions have what core reads, and Ready becomes InfrastructureReady of the Machine.
func machineConditions(t *testing.T, s *Suite) {
	_, machines, _ := newRunningMachines(t, s)
	for _, m := range machines {
		testenv.Object(t, s.Client, m.Machine, "InfrastructureReady is Ready of the HostMachine", func(machine *clusterv1.Machine) string {
			infra := &infrav1.HostMachine{}
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(m.infra), infra); err != nil {
				return err.Error()
			}
			ready, mirror := conditions.Get(infra, clusterv1.ReadyCondition), conditions.Get(machine, clusterv1.MachineInfrastructureReadyCondition)
			return unless(ready != nil && mirror != nil && ready.Status == metav1.ConditionTrue && mirror.Status == ready.Status, "%v is not %v", mirror, ready)
		})
		for _, item := range objectConditions(s.asCoreReads(t, "HostMachine", client.ObjectKeyFromObject(m.infra))) {
			condition, _ := item.(map[string]any)
			for _, field := range []string{"type", "status", "reason", "lastTransitionTime"} {
				if value, _ := condition[field].(string); value == "" {
					t.Errorf("condition without %s: %v", field, item)
				}
			}
		}
	}
}

// Terminal failures are left out on purpose: there is no field to write one into.
func machineTerminalFailures(t *testing.T, s *Suite) {
	namespace := s.namespaceFor(t)
	object := s.sample("HostMachine", namespace, "broken")
	if err := s.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(object.DeepCopy())
	_ = unstructured.SetNestedField(object.Object, version, "status", "version")
	_ = unstructured.SetNestedField(object.Object, "Broken", "status", "failureReason")
	if err := s.Client.Status().Patch(t.Context(), object, patch); err != nil {
		t.Fatal(err)
	}
	if value, found, _ := unstructured.NestedString(s.asCoreReads(t, "HostMachine", client.ObjectKeyFromObject(object)).Object, "status", "failureReason"); found {
		t.Errorf("failureReason is stored: %q", value)
	}
}

// Pausing, by the annotation: a paused machine claims no host.
func machinePausing(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.newMachineSet(1)}}
	machines := &infrav1.HostMachineList{}
	testenv.Object(t, s.Client, template, "the HostMachine is there", func(*infrav1.HostMachineTemplate) string {
		f.list(machines, client.MatchingLabels{clusterv1.MachineSetNameLabel: "set"})
		return unless(len(machines.Items) == 1, "%d", len(machines.Items))
	})
	infra := &machines.Items[0]
	pause := func(on bool) {
		change(t, s, infra, func(m *infrav1.HostMachine) {
			if delete(m.Annotations, clusterv1.PausedAnnotation); on {
				m.Annotations[clusterv1.PausedAnnotation] = ""
			}
		})
		testenv.Object(t, s.Client, infra, fmt.Sprintf("Paused is %v", on), func(m *infrav1.HostMachine) string {
			return unless(conditions.IsTrue(m, clusterv1.PausedCondition) == on, "%v", m.Status.Conditions)
		})
	}
	pause(true)
	s.addHost(t, f.namespace, "h1")
	s.passTime(t)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil || infra.Spec.ProviderID != "" {
		t.Errorf("a paused machine has claimed a host: %q, %v", infra.Spec.ProviderID, err)
	}
	pause(false)
	f.awaitRunning(2)
}

// A template tells the cluster autoscaler what its machines have.
func machineAutoscaling(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addHost(t, f.namespace, "h1")
	template := &infrav1.HostMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "sizes"}}
	f.create(template)
	testenv.Object(t, s.Client, template, "the template has a capacity", func(*infrav1.HostMachineTemplate) string {
		object := s.asCoreReads(t, "HostMachineTemplate", client.ObjectKeyFromObject(template))
		cpu, _, _ := unstructured.NestedString(object.Object, "status", "capacity", "cpu")
		architecture, _, _ := unstructured.NestedString(object.Object, "status", "nodeInfo", "architecture")
		return unless(cpu != "" && architecture != "", "cpu %q, architecture %q", cpu, architecture)
	})
}

// A machine whose Machine is not there gets no host, also once the Cluster is ready.
func machineWithoutOwner(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addHost(t, f.namespace, "h1")
	infra := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "ownerless", Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}}}
	f.create(infra)
	s.passTime(t)
	f.expectNoClaim(infra)
}

// A machine without bootstrap data gets none, until the data is there.
func machineWithoutData(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addHost(t, f.namespace, "control-plane")
	const name = "late"
	labels := map[string]string{clusterv1.ClusterNameLabel: clusterName, clusterv1.MachineControlPlaneLabel: ""}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}}
	machine.Spec = clusterv1.MachineSpec{
		ClusterName: clusterName, Version: version,
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: name,
		}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "HostMachine", Name: name},
	}
	infra := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name, Labels: labels}}
	f.create(infra, machine)
	testenv.Object(t, s.Client, infra, "core makes the Machine the owner", func(m *infrav1.HostMachine) string {
		return unless(len(m.OwnerReferences) == 1, "no owner")
	})
	s.passTime(t)
	f.expectNoClaim(infra)
	f.create(f.bootstrapSecret("bootstrap-" + name))
	change(t, s, machine, func(m *clusterv1.Machine) {
		m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: ptr.To("bootstrap-" + name)}
	})
	f.awaitRunning(1)
}

func (f *fixture) expectNoClaim(infra *infrav1.HostMachine) {
	f.t.Helper()
	hosts := &infrav1.HostList{}
	f.list(hosts)
	for i := range hosts.Items {
		if claim := hosts.Items[i].Spec.Claim; claim != nil && claim.MachineName == infra.Name {
			f.t.Errorf("%s has claimed %s", infra.Name, hosts.Items[i].Name)
		}
	}
}

// A deleted machine goes when its host is clean, and not before.
func machineDeleted(t *testing.T, s *Suite) {
	f, machines, worker := newRunningMachines(t, s)
	release := worker.executor.holdResets()
	defer release()
	i := slices.IndexFunc(machines, func(m machineOf) bool { return m.Status.NodeRef.Name == worker.key.Name })
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "set"}}
	change(t, s, set, func(set *clusterv1.MachineSet) { set.Spec.Replicas = ptr.To(int32(0)) })
	f.awaitReset([]*simulatedHost{worker})
	s.passTime(t)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(machines[i].infra), machines[i].infra); err != nil {
		t.Errorf("the HostMachine of a host that is not clean: %v", err)
	}
	release()
	testenv.Gone(t, s.Client, machines[i].Machine)
	if worker.executor.finishedResets() == 0 {
		t.Error("the Machine went before its host was clean")
	}
}
