package hostmachinepool_test

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func TestInPlaceUpgrade(t *testing.T) {
	w := newRunning(t, 2, infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeInPlace})
	w.hostsOfMembers(testenv.Version, nextVersion)
	names := slices.Sorted(maps.Keys(w.staying()))
	w.upgrade()
	w.reconcile()
	if got := w.versions(); got[nextVersion] != 1 {
		t.Fatalf("versions = %v, want one to begin", got)
	}
	w.run()
	w.reconcile()
	if got := w.versions(); got[nextVersion] != 2 {
		t.Fatalf("versions = %v", got)
	}
	// All were asked, and one has not done it.
	pool := w.reconcile()
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "1 of a host that is changing to version "+nextVersion)
	wantReason(t, pool, clusterv1.MachinesUpToDateCondition, clusterv1.NotUpToDateReason, "changing to version "+nextVersion)
	if n := ptr.Deref(pool.Status.UpdatedReplicas, 0); n != 1 {
		t.Errorf("%d updated replicas while one of 2 is upgraded", n)
	}
	w.run()
	pool = w.reconcile()
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.NotRollingOutReason, "")
	if got := slices.Sorted(maps.Keys(w.staying())); !slices.Equal(got, names) {
		t.Errorf("members %v became %v", names, got)
	}

	// What differs in more than the version is replaced.
	w.rewrite("#cloud-config\nruncmd: ['false']\n")
	pool = w.reconcile()
	if n := len(leaving(w.hostMachines())); n != 1 {
		t.Errorf("%d members leave: %+v", n, pool.Status.Conditions)
	}
}

func TestInPlaceNeedsTheVersionOnTheHost(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeInPlace})
	w.hostsOfMembers(testenv.Version)
	w.upgrade()
	pool := w.reconcile()
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "do not offer v1.37.0 (workers-")
	if w.versions()[nextVersion] != 0 {
		t.Error("the upgrade was requested")
	}
}

func TestInPlaceWithoutSpareHost(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{NoSpareHost: infrav1.NoSpareHostInPlace, MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	w.hostsOfMembers(testenv.Version, nextVersion)
	w.upgrade()
	w.reconcile()
	if len(w.hostMachines()) != 1 || w.versions()[nextVersion] != 1 {
		t.Errorf("%d members, versions %v", len(w.hostMachines()), w.versions())
	}
}

// hostsOfMembers makes the hosts that claim gave the members.
func (w *world) hostsOfMembers(versions ...string) {
	w.t.Helper()
	for name, m := range w.staying() {
		agent := testenv.NewHost(w.t, env.Client, w.key.Namespace, "host-of-"+name, w.clock.Now(), func(h *infrav1.Host) {
			h.Spec.Claim = &infrav1.HostClaim{MachineName: name, ClusterName: testenv.ClusterName, ClaimID: m.Spec.ClaimID}
		})
		agent.Report(w.t, func(s *infrav1.HostStatus) { s.Inventory.KubernetesVersions = versions })
	}
}
