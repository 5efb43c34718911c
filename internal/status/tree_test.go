package status

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
)

// Each machine is below what scales it, with the state of its host; a cause is written once, below the machine that it is about.
func TestTree(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	c := clusterv1.Cluster{ObjectMeta: named("a")}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 6443}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "a-cp"}
	o := &doctor.Snapshot{Now: now, Snapshot: snapshot.Snapshot{Clusters: []clusterv1.Cluster{c}}}
	o.MachinePools = []clusterv1.MachinePool{{ObjectMeta: named("a-pool-x", clusterv1.ClusterTopologyMachinePoolNameLabel, "pool"), Spec: clusterv1.MachinePoolSpec{ClusterName: "a", Replicas: ptr.To[int32](2)}}}
	o.MachinePools[0].Spec.Template.Spec.InfrastructureRef.Name = "a-pool-x"
	o.HostMachinePools = []infrav1.HostMachinePool{*hostPool("a-pool-x", "a")}
	o.MachineDeployments = []clusterv1.MachineDeployment{{ObjectMeta: named("a-md"), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "a", Replicas: ptr.To[int32](1)}}}
	lost := metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionUnknown, Reason: clusterv1.MachineNodeReadyUnknownReason,
		Message: "* NodeReady: Kubelet stopped posting node status.", LastTransitionTime: metav1.NewTime(now.Add(-7 * time.Minute))}
	add := func(name, host string, labels []string, conditions ...metav1.Condition) {
		m := clusterv1.Machine{ObjectMeta: named(name, labels...), Spec: clusterv1.MachineSpec{ClusterName: "a", Version: "v1.36.3"}}
		m.Status.Conditions = conditions
		m.Status.NodeRef.Name = name
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: name}
		on := hostMachine(name, "a")
		if on.Status.HostRef.Name = host; host != "" {
			on.Status.Conditions = []metav1.Condition{condition(clusterv1.ReadyCondition, "True", "")}
		}
		o.Machines, o.HostMachines = append(o.Machines, m), append(o.HostMachines, *on)
		if host != "" {
			h := infrav1.Host{ObjectMeta: named(host), Spec: infrav1.HostSpec{Claim: &infrav1.HostClaim{ClusterName: "a", MachineName: name}}}
			h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "op"}
			h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "op", Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationSucceeded, CompletionTime: metav1.NewTime(now.Add(-time.Hour))}
			o.Hosts = append(o.Hosts, h)
		}
	}
	add("a-pool-10", "host-4", []string{clusterv1.MachinePoolNameLabel, "a-pool-x"})
	add("a-pool-9", "host-3", []string{clusterv1.MachinePoolNameLabel, "a-pool-x"}, lost)
	add("a-cp-1", "host-1", []string{clusterv1.MachineControlPlaneLabel, ""}, condition(clusterv1.MachineNodeReadyCondition, "True", ""))
	add("a-md-1", "", []string{clusterv1.MachineDeploymentNameLabel, "a-md"})
	add("a-single", "host-5", nil)
	o.Machines = append(o.Machines, clusterv1.Machine{ObjectMeta: named("b-1"), Spec: clusterv1.MachineSpec{ClusterName: "b"}})

	tree := TreeOf(&o.Clusters[0], o, Judge(o))
	var got []string
	for _, g := range tree.Groups {
		got = append(got, g.Kind+"/"+g.Name+" "+count(g.Replicas))
		for _, m := range g.Machines {
			got = append(got, "  "+m.Name+" "+m.Host+" "+string(m.State.Role))
		}
	}
	want := []string{"KubeadmControlPlane/a-cp 1/0", "  a-cp-1 host-1 ok", "MachinePool/pool 0/2", "  a-pool-9 host-3 bad", "  a-pool-10 host-4 ok",
		"MachineDeployment/a-md 0/1", "  a-md-1  work", "Machines/ 0/1", "  a-single host-5 ok"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	page := display.NewPage(&strings.Builder{})
	RenderTree(page, tree, false, now)
	text := page.String()
	const said = "Kubelet stopped posting node status."
	if strings.Count(text, said) != 1 || !strings.Contains(text, "│ ├─Machine/a-pool-9") || !strings.Contains(text, "│ │ because") || !strings.Contains(text, "│ │ next") {
		t.Errorf("the cause is written %d times:\n%s", strings.Count(text, said), text)
	}
	if !strings.HasPrefix(tree.State.Word, "Node") || tree.State.Role != Bad {
		t.Errorf("the cluster is %+v", tree.State)
	}
}
