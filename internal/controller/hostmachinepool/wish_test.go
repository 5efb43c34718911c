package hostmachinepool_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var nvme = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "nvme"}}

// onHosts is a pool of two that run, each on a host with the label disk=nvme.
func onHosts(t *testing.T) (w *world, members []string) {
	t.Helper()
	w = newRunning(t, 2, infrav1.HostMachinePoolStrategy{})
	for _, m := range w.hostMachines() {
		testenv.NewHost(t, env.Client, w.key.Namespace, "host-of-"+m.Name, w.clock.Now(), func(h *infrav1.Host) {
			h.Labels = map[string]string{"disk": "nvme"}
			h.Spec.Claim = &infrav1.HostClaim{MachineName: m.Name, ClusterName: testenv.ClusterName, ClaimID: m.Spec.ClaimID}
			h.Spec.ClaimGeneration = 1
		})
	}
	w.reconcile()
	return w, slices.Sorted(maps.Keys(w.staying()))
}

// unlabel takes the label from the host of a member.
func (w *world) unlabel(member string) {
	w.t.Helper()
	h := &infrav1.Host{}
	if err := env.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.key.Namespace, Name: "host-of-" + member}, h); err != nil {
		w.t.Fatal(err)
	}
	h.Labels = nil
	if err := env.Client.Update(w.t.Context(), h); err != nil {
		w.t.Fatal(err)
	}
}

func upToDate(pool *infrav1.HostMachinePool) (metav1.ConditionStatus, string) {
	c := conditions.Get(pool, clusterv1.MachinesUpToDateCondition)
	if c == nil {
		return "", ""
	}
	return c.Status, c.Message
}

// What the hosts of all members have anyway replaces nobody when it is asked for, nor does what is asked
// for no more, again and again.
func TestWishesThatHostsSatisfyReplaceNobody(t *testing.T) {
	w, before := onHosts(t)
	for _, wish := range []infrav1.Placement{
		{HostSelector: nvme},
		{HostSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "disk", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"hdd"}}}}},
		{HostSelector: nvme, MinCapacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		{HostSelector: &metav1.LabelSelector{}},
		{},
	} {
		w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.Placement = wish })
		pool := w.reconcile()
		if status, message := upToDate(pool); status != metav1.ConditionTrue {
			t.Errorf("%+v: MachinesUpToDate is %s: %s", wish, status, message)
		}
		for name, m := range w.staying() {
			if m.Labels[infrav1.RevisionLabel] != pool.Status.Revision {
				t.Errorf("%+v: member %s has revision %s, the pool %s", wish, name, m.Labels[infrav1.RevisionLabel], pool.Status.Revision)
			}
		}
		if after := slices.Sorted(maps.Keys(w.staying())); !slices.Equal(before, after) {
			t.Fatalf("%+v: members %v, want %v as before", wish, after, before)
		}
	}
	// other bootstrap data, or other labels of Nodes, replace them all the same, with a wish at the same time or without
	w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.NodeLabels = []infrav1.HostLabelKey{"disk"} })
	if status, _ := upToDate(w.reconcile()); status != metav1.ConditionFalse {
		t.Error("members whose Nodes lack a label count as up to date")
	}
	w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.NodeLabels = nil })
	if status, _ := upToDate(w.reconcile()); status != metav1.ConditionTrue {
		t.Error("members made without labels count as out of date")
	}
	w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.HostSelector = nvme })
	w.rewrite("#cloud-config\nruncmd: [other]\n")
	if status, _ := upToDate(w.reconcile()); status != metav1.ConditionFalse {
		t.Error("members made from other bootstrap data count as up to date")
	}
}

// Of two members one is on a host that does not have what is asked for now: it is named and replaced,
// and the other one stays.
func TestWishReplacesOnlyWhoseHostDoesNotFit(t *testing.T) {
	w, members := onHosts(t)
	w.unlabel(members[0])
	w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.HostSelector = nvme })
	pool := w.reconcile()
	if _, message := upToDate(pool); !strings.Contains(message, members[0]) || strings.Contains(message, members[1]) || !strings.Contains(message, "spec.hostSelector") {
		t.Errorf("MachinesUpToDate says %q, want member %s alone", message, members[0])
	}
	if pool.Status.Rollout.Revision != pool.Status.Revision || len(w.staying()) == 2 && len(w.hostMachines()) == 2 {
		t.Errorf("nobody is replaced: %+v", pool.Status.Rollout)
	}
	if _, stays := w.staying()[members[1]]; !stays {
		t.Errorf("member %s leaves, whose host fits", members[1])
	}
}

// A host loses the label that its pool asks for while a member is on it: that is said, with what to
// do, and replaces nobody.
func TestLabelThatGoesReplacesNobody(t *testing.T) {
	w, members := onHosts(t)
	w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.HostSelector = nvme })
	w.reconcile()
	w.unlabel(members[0])
	status, message := upToDate(w.reconcile())
	if status != metav1.ConditionFalse || !strings.Contains(message, "host-of-"+members[0]) || !strings.Contains(message, "Delete Machine "+members[0]) {
		t.Errorf("MachinesUpToDate is %s: %q", status, message)
	}
	if after := slices.Sorted(maps.Keys(w.staying())); !slices.Equal(members, after) || len(w.hostMachines()) != 2 {
		t.Errorf("members %v, want %v as before", after, members)
	}
}
