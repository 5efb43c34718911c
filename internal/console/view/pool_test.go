package view

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// rolling is a pool that replaces the first of its two machines.
func rolling() (*infrav1.HostMachinePool, *snapshot.Snapshot) {
	pool := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "workers", UID: "uid-of-workers", Labels: map[string]string{clusterv1.ClusterNameLabel: "edge"}}}
	pool.Status.Revision, pool.Status.Replicas, pool.Status.UpdatedReplicas = "r2", 2, ptr.To(int32(1))
	pool.Status.Conditions = []metav1.Condition{{Type: clusterv1.RollingOutCondition, Status: metav1.ConditionTrue, Reason: "RollingOut", Message: "Rolling out 1 not up-to-date machines\n* w-2 is not available"}}
	member := func(name, revision, host string) infrav1.HostMachine {
		m := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, Labels: map[string]string{infrav1.RevisionLabel: revision},
			OwnerReferences: []metav1.OwnerReference{{Kind: "HostMachinePool", Name: pool.Name, UID: pool.UID}},
		}}
		m.Spec.Version, m.Status.HostRef.Name = "v1.36.3", host
		return m
	}
	other := member("other", "r2", "")
	other.OwnerReferences[0].UID = "uid-of-another-workers"
	host := infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h-2"}}
	host.Spec.Desired = &infrav1.HostDesired{OperationID: "op", Phase: infrav1.HostDesiredBootstrapped}
	host.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "op", Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationRunning, Step: "runcmd 1 of 2"}
	return pool, &snapshot.Snapshot{
		HostMachines: []infrav1.HostMachine{member("w-1", "r2", "h-2"), member("w-10", "r1", ""), other},
		Hosts:        []infrav1.Host{host},
	}
}

func known(o *snapshot.Snapshot) *doctor.Snapshot {
	return &doctor.Snapshot{Snapshot: *o, Now: time.Now()}
}

func judged(o *snapshot.Snapshot) *status.States {
	return status.Judge(known(o))
}

func TestPoolTellsWhichMachineIsAtWhichStepAndWhyItWaits(t *testing.T) {
	pool, objects := rolling()
	v := PoolOf(pool, "v1.36.3", known(objects), judged(objects), 1)
	if len(v.Members) != 2 || v.Members[0].Name != "w-10" || !v.Members[0].Outdated || v.Members[1].Outdated {
		t.Fatalf("members: %+v", v.Members)
	}
	if op := v.Members[1].Operation; op == nil || op.Step != "runcmd 1 of 2" {
		t.Errorf("operation %+v", op)
	}
	if v.RollingOut == nil || !slices.Equal(v.RollingOut.Lines, []string{"Rolling out 1 not up-to-date machines", "w-2 is not available"}) || v.Cluster != "edge" || v.Updated != 1 {
		t.Errorf("%+v", v)
	}
	// Who may not list MachinePools learns what the revision tells.
	if v := PoolOf(pool, "", known(objects), judged(objects), 1); !v.Members[0].Outdated || v.Members[1].Outdated {
		t.Errorf("without the version: %+v", v.Members)
	}
	// Another version makes all of them outdated; before there is a revision, none is.
	for _, m := range PoolOf(pool, "v1.36.4", known(objects), judged(objects), 1).Members {
		if !m.Outdated {
			t.Errorf("%s is told to have v1.36.4", m.Name)
		}
	}
	pool.Status.Revision = ""
	for _, m := range PoolOf(pool, "v1.36.4", known(objects), judged(objects), 1).Members {
		if m.Outdated {
			t.Errorf("%s is told to be outdated", m.Name)
		}
	}
}

// A machine waits for the same as in `slipway status`: also for a Node in trouble, while its
// HostMachine is still ready.
func TestMachineWaitsForItsNode(t *testing.T) {
	pool, objects := rolling()
	objects.HostMachines[0].Status.Conditions = []metav1.Condition{{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue}}
	machine := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w-1"}}
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: "w-1"}
	machine.Status.NodeRef.Name = "node-1"
	machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNodeNotReadyReason, Message: "* no network"}}
	objects.Machines = []clusterv1.Machine{machine}
	if got := PoolOf(pool, "v1.36.3", known(objects), judged(objects), 1).Members[1].Waiting; got != "Node node-1 is not ready: no network" {
		t.Errorf("w-1 waits for %q", got)
	}
}

func TestPoolsOfACluster(t *testing.T) {
	pool, _ := rolling()
	still := pool.DeepCopy()
	still.Name, still.Status.Conditions[0].Status = "a", metav1.ConditionFalse
	other := pool.DeepCopy()
	other.Labels[clusterv1.ClusterNameLabel] = "another"
	lines := PoolsOf(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "edge"}}, []infrav1.HostMachinePool{*pool, *other, *still})
	if len(lines) != 2 || lines[0].Name != "a" || lines[0].Doing != "" || lines[1].Doing == "" {
		t.Errorf("%+v", lines)
	}
}

// TestMachineOfAnotherProviderIsNoMember holds that a Machine whose infrastructure has the name of
// a member, and another kind or group, is not shown as that member.
func TestMachineOfAnotherProviderIsNoMember(t *testing.T) {
	for _, ref := range []clusterv1.ContractVersionedObjectReference{
		{APIGroup: "infrastructure.example.com", Kind: "HostMachine", Name: "w-1"},
		{APIGroup: infrav1.GroupVersion.Group, Kind: "OtherMachine", Name: "w-1"},
	} {
		pool, objects := rolling()
		other := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}}
		other.Spec.InfrastructureRef = ref
		other.Status.NodeRef.Name = "other-node"
		objects.Machines = append(objects.Machines, other)
		for _, m := range PoolOf(pool, "v1.36.3", known(objects), judged(objects), 1).Members {
			if m.Name == "other" || m.Node != "" {
				t.Errorf("a Machine of %s/%s is shown as a member of the pool: %+v", ref.APIGroup, ref.Kind, m.Member)
			}
		}
	}
}
