package provider

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// MachinePool Machines: every member is a HostMachine, which core makes a Machine of.
func poolMachines(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	s.addHosts(t, f.namespace, 2)
	p := f.newPool(2, func(mp *clusterv1.MachinePool, _ *infrav1.HostMachinePool) {
		mp.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(77))
	})
	f.awaitNodes(p, 2)
	object := s.asCoreReads(t, "HostMachinePool", client.ObjectKeyFromObject(p.infra))
	if kind, _, _ := unstructured.NestedString(object.Object, "status", "infrastructureMachineKind"); kind != "HostMachine" {
		t.Errorf("infrastructureMachineKind %q", kind)
	}
	poll.Until(t, "each member is a Machine that runs", func() error {
		machines := f.machines(p)
		if len(machines) != 2 {
			return fmt.Errorf("%d Machines", len(machines))
		}
		for i := range machines {
			m := &machines[i]
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) || !m.Status.NodeRef.IsDefined() {
				return fmt.Errorf("%s is %s with Node %q", m.Name, m.Status.Phase, m.Status.NodeRef.Name)
			}
			if ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0) != 77 {
				return fmt.Errorf("%s has not the drain timeout of the template", m.Name)
			}
		}
		return nil
	})
	for _, member := range f.members(p) {
		checkMember(t, f, p, &member)
	}
}

func checkMember(t *testing.T, f *fixture, p *pool, member *infrav1.HostMachine) {
	t.Helper()
	machine := &clusterv1.Machine{}
	if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(member), machine); err != nil {
		t.Errorf("no Machine of the name: %v", err)
		return
	}
	if owner := metav1.GetControllerOf(machine); owner == nil || owner.Kind != "MachinePool" || owner.Name != p.Name {
		t.Errorf("Machine %s is controlled by %v", machine.Name, owner)
	}
	if owner := metav1.GetControllerOf(member); owner == nil || owner.Kind != "Machine" || owner.Name != machine.Name {
		t.Errorf("HostMachine %s is controlled by %v", member.Name, owner)
	}
	if !slices.ContainsFunc(member.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "HostMachinePool" && r.Name == p.infra.Name }) {
		t.Errorf("HostMachine %s is not owned by its pool: %v", member.Name, member.OwnerReferences)
	}
	if member.Labels[clusterv1.ClusterNameLabel] != clusterName || member.Labels[clusterv1.MachinePoolNameLabel] != p.Name {
		t.Errorf("HostMachine %s has labels %v", member.Name, member.Labels)
	}
	if machine.Spec.ProviderID != member.Spec.ProviderID {
		t.Errorf("Machine %s has providerID %q, its HostMachine %q", machine.Name, machine.Spec.ProviderID, member.Spec.ProviderID)
	}
}

// Scale down deletes the Machine, so that core drains the Node before the host is
// touched.
func drainOnScaleDown(t *testing.T, s *Suite) {
	f := newReadyFixture(t, s)
	f.addControlPlane()
	host := s.addHost(t, f.namespace, "h1")
	p := f.newPool(1)
	f.awaitNodes(p, 1)
	poll.Until(t, "core knows the Node of the Machine", func() error {
		if machines := f.machines(p); len(machines) != 1 || !machines[0].Status.NodeRef.IsDefined() {
			return fmt.Errorf("%d Machines", len(machines))
		}
		return nil
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: host.key.Name},
		Spec:       corev1.PodSpec{NodeName: host.key.Name, Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}}},
	}
	if err := s.Workload.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.scale(p, 0)
	poll.Until(t, "core evicts the pod", func() error {
		if err := s.Workload.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp.IsZero() {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
	s.passTimeOfPools(t)
	members := f.members(p)
	if len(members) != 1 || !members[0].DeletionTimestamp.IsZero() {
		t.Errorf("the HostMachine went while its Node was drained: %v", members)
	}
	h := &infrav1.Host{}
	if err := s.Client.Get(t.Context(), host.key, h); err != nil || h.Spec.Desired.Phase != infrav1.HostDesiredBootstrapped {
		t.Errorf("the host was told to reset while its Node was drained: %v, %v", h.Spec.Desired, err)
	}
	// No kubelet ends the pod.
	if err := s.Workload.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	touches := 0
	poll.Until(t, "the member is gone", func() error {
		// Core checks the pod every 20 s, or when something happens to the Machine.
		touches++
		for _, m := range f.machines(p) {
			touch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"touches":"%d"}}}`, touches))
			if err := s.Client.Patch(t.Context(), &m, touch); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if n := len(f.members(p)) + len(f.machines(p)); n > 0 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
	f.awaitNodes(p, 0)
}
