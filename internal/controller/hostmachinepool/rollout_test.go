package hostmachinepool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

const (
	nextVersion = "v1.37.0"
	joinPath    = "/run/kubeadm/kubeadm-join-config.yaml"
)

// newRunning is a pool whose members all run and are available.
func newRunning(t *testing.T, replicas int32, strategy infrav1.HostMachinePoolStrategy) *world {
	t.Helper()
	w := newWorld(t, replicas, func(_ *clusterv1.MachinePool, pool *infrav1.HostMachinePool) { pool.Spec.Strategy = strategy })
	w.reconcile()
	w.run()
	w.reconcile()
	return w
}

// run lets every member come up, as hosts, agents and core would.
func (w *world) run() {
	w.t.Helper()
	w.claim()
	for _, m := range w.hostMachines() {
		m.Status.Initialization.Provisioned = ptr.To(true)
		m.Status.Version = m.Spec.Version
		if err := env.Client.Status().Update(ctx, &m); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, m := range w.machines() {
		w.setAvailable(&m, metav1.ConditionTrue)
	}
}

func (w *world) setAvailable(m *clusterv1.Machine, status metav1.ConditionStatus) {
	w.t.Helper()
	for _, conditionType := range []string{clusterv1.ReadyCondition, clusterv1.AvailableCondition} {
		conditions.Set(m, metav1.Condition{Type: conditionType, Status: status, Reason: "Test"})
	}
	if err := env.Client.Status().Update(ctx, m); err != nil {
		w.t.Fatal(err)
	}
}

// changePool and changeMachinePool change a spec.
func (w *world) changePool(mutate func(*infrav1.HostMachinePool)) {
	w.t.Helper()
	pool := &infrav1.HostMachinePool{}
	if err := env.Client.Get(ctx, w.key, pool); err != nil {
		w.t.Fatal(err)
	}
	mutate(pool)
	if err := env.Client.Update(ctx, pool); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) changeMachinePool(mutate func(*clusterv1.MachinePool)) {
	w.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(w.machinePool), w.machinePool); err != nil {
		w.t.Fatal(err)
	}
	mutate(w.machinePool)
	if err := env.Client.Update(ctx, w.machinePool); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) upgrade() {
	w.t.Helper()
	w.changeMachinePool(func(mp *clusterv1.MachinePool) { mp.Spec.Template.Spec.Version = nextVersion })
}

// rewrite replaces the bootstrap data, as the bootstrap provider does, and lets the
// time pass in which the old data would still be believed.
func (w *world) rewrite(data string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.key.Namespace, Name: *w.machinePool.Spec.Template.Spec.Bootstrap.DataSecretName}
	if err := env.Client.Get(ctx, key, secret); err != nil {
		w.t.Fatal(err)
	}
	secret.Data["value"] = []byte(data)
	if err := env.Client.Update(ctx, secret); err != nil {
		w.t.Fatal(err)
	}
	w.clock.Step(time.Minute)
}

// staying are the members that are not leaving, by name.
func (w *world) staying() map[string]infrav1.HostMachine {
	w.t.Helper()
	staying := map[string]infrav1.HostMachine{}
	for _, m := range w.hostMachines() {
		if m.DeletionTimestamp.IsZero() {
			staying[m.Name] = m
		}
	}
	return staying
}

// versions counts the members that are not leaving by version.
func (w *world) versions() map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for _, m := range w.staying() {
		counts[m.Spec.Version]++
	}
	return counts
}

func wantReason(t *testing.T, pool *infrav1.HostMachinePool, conditionType, reason, message string) {
	t.Helper()
	got := conditions.Get(pool, conditionType)
	if got == nil || got.Reason != reason || !strings.Contains(got.Message, message) {
		t.Errorf("%s = %+v, want %s: %s", conditionType, got, reason, message)
	}
}

func TestRollingUpgrade(t *testing.T) {
	w := newRunning(t, 3, infrav1.HostMachinePoolStrategy{})
	w.upgrade()
	for step := 0; ; step++ {
		pool := w.reconcile()
		if n := len(w.staying()); n > 4 {
			t.Fatalf("%d members with a surge of 1", n)
		}
		available := 0
		for _, m := range w.machines() {
			if m.DeletionTimestamp.IsZero() && conditions.IsTrue(&m, clusterv1.AvailableCondition) {
				available++
			}
		}
		if available < 3 {
			t.Fatalf("%d members available with maxUnavailable 0", available)
		}
		if w.versions()[nextVersion] == 3 && len(w.hostMachines()) == 3 {
			wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.NotRollingOutReason, "")
			wantReason(t, pool, clusterv1.MachinesUpToDateCondition, clusterv1.UpToDateReason, "")
			if ptr.Deref(pool.Status.UpdatedReplicas, 0) != 3 || pool.Status.Rollout != (infrav1.HostMachinePoolRollout{}) {
				t.Errorf("status = %+v", pool.Status)
			}
			break
		}
		if step == 0 {
			wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "3 of version v1.36.3, wanted v1.37.0\n* waiting for 1 updated machines to get a host")
			wantReason(t, pool, clusterv1.MachinesUpToDateCondition, clusterv1.NotUpToDateReason, "3 of version v1.36.3")
			if !conditions.IsTrue(pool, clusterv1.ReadyCondition) {
				t.Errorf("a rollout makes the pool not ready: %+v", pool.Status.Conditions)
			}
		}
		if step > 20 {
			t.Fatalf("no end: %v, %+v", w.versions(), pool.Status.Conditions)
		}
		w.run()
		w.reconcile()
		w.release()
	}
}

// A member counts as available by the word of core, not because its host is done.
func TestProvisionedIsNotAvailable(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.upgrade()
	w.reconcile()
	w.claim()
	w.provision()
	pool := w.reconcile()
	if len(leaving(w.hostMachines())) != 0 {
		t.Fatal("the old member goes although the Node of the new one is not ready")
	}
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "waiting for 1 updated machines to become available")
	w.run()
	w.reconcile()
	if len(leaving(w.hostMachines())) != 1 {
		t.Error("the old member stays although the new one is available")
	}
}

func joinData(token, motd string) string {
	return fmt.Sprintf("#cloud-config\nwrite_files:\n- path: /etc/motd\n  content: %s\n- path: %s\n  content: |\n    ---\n    apiVersion: kubeadm.k8s.io/v1beta4\n"+
		"    kind: JoinConfiguration\n    discovery:\n      bootstrapToken: {token: %s, apiServerEndpoint: '10.0.0.1:6443'}\n", motd, joinPath, token)
}

func TestTokenRotationsRollNothingOut(t *testing.T) {
	w := newWorld(t, 2)
	w.rewrite(joinData("abcdef.0000000000000000", "hello"))
	w.reconcile()
	w.run()
	before := w.reconcile().Status.Revision
	for i := range 100 {
		w.rewrite(joinData(fmt.Sprintf("abcdef.%016x", i+1), "hello"))
		if _, err := w.Reconcile(ctx, w.request()); err != nil {
			t.Fatal(err)
		}
	}
	pool := w.reconcile()
	if len(w.hostMachines()) != 2 || pool.Status.Revision != before {
		t.Fatalf("%d members, revision %s after %s", len(w.hostMachines()), pool.Status.Revision, before)
	}

	w.rewrite(joinData("abcdef.1111111111111111", "good bye"))
	pool = w.reconcile()
	if pool.Status.Revision == before || ptr.Deref(pool.Status.UpdatedReplicas, 0) != 1 || len(w.hostMachines()) != 3 {
		t.Fatalf("a changed file rolls nothing out: %+v", pool.Status)
	}
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "revision "+before+", wanted "+pool.Status.Revision)
}

// Bootstrap data that can't be read for a moment must neither replace machines nor
// make new ones of an unknown kind.
func TestUnknownBootstrapDataHoldsThePool(t *testing.T) {
	w := newRunning(t, 2, infrav1.HostMachinePoolStrategy{})
	w.rewrite("{}")
	w.scale(3)
	pool := w.reconcile()
	if len(w.hostMachines()) != 2 {
		t.Fatalf("%d members", len(w.hostMachines()))
	}
	wantReason(t, pool, clusterv1.ScalingUpCondition, clusterv1.ScalingUpReason, "Secret bootstrap-workers: the bootstrap data is not a cloud-config")
	wantReason(t, pool, clusterv1.MachinesUpToDateCondition, clusterv1.UpToDateUnknownReason, "Secret bootstrap-workers")
	w.rewrite(testenv.BootstrapData)
	if w.reconcile(); len(w.hostMachines()) != 3 {
		t.Errorf("%d members", len(w.hostMachines()))
	}
}

func TestHostSelectorMakesARevision(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.changePool(func(p *infrav1.HostMachinePool) {
		p.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	})
	if w.reconcile(); len(w.staying()) != 2 {
		t.Errorf("%d members", len(w.staying()))
	}
}

func TestResetPolicyReachesMembers(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.changePool(func(p *infrav1.HostMachinePool) { p.Spec.ResetPolicy = infrav1.ResetPolicyManual })
	w.reconcile()
	if m := w.hostMachines(); len(m) != 1 || m[0].Spec.ResetPolicy != infrav1.ResetPolicyManual {
		t.Errorf("members = %+v", m)
	}
}

func TestOnDelete(t *testing.T) {
	w := newRunning(t, 2, infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeOnDelete})
	w.upgrade()
	pool := w.reconcile()
	if got := w.versions(); got[testenv.Version] != 2 || len(got) != 1 {
		t.Fatalf("versions = %v", got)
	}
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "2 outdated machines wait to be deleted")
	machine := w.machines()[0]
	if err := env.Client.Delete(ctx, &machine); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if got := w.versions(); got[testenv.Version] != 1 || got[nextVersion] != 1 {
		t.Errorf("versions = %v", got)
	}
}

func TestFailedMachinePausesTheRollout(t *testing.T) {
	w := newRunning(t, 3, infrav1.HostMachinePoolStrategy{MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	w.upgrade()
	w.reconcile()
	var bad string
	for name, m := range w.staying() {
		if m.Spec.Version != nextVersion {
			continue
		}
		bad = name
		conditions.Set(&m, metav1.Condition{Type: infrav1.BootstrapSucceededCondition, Status: metav1.ConditionFalse, Reason: infrav1.BootstrapFailedReason, Message: "x"})
		if err := env.Client.Status().Update(ctx, &m); err != nil {
			t.Fatal(err)
		}
		break
	}
	before := w.versions()
	w.release()
	pool := w.reconcile()
	wantReason(t, pool, clusterv1.RollingOutCondition, infrav1.RolloutFailedReason, "1 updated machines failed ("+bad+")")
	if after := w.versions(); after[testenv.Version] != before[testenv.Version] {
		t.Errorf("the rollout went on: %v after %v", after, before)
	}

	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: bad}}
	if err := env.Client.Delete(ctx, machine); err != nil {
		t.Fatal(err)
	}
	pool = w.reconcile()
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "")
}

func TestProgressDeadline(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{ProgressDeadlineSeconds: ptr.To[int32](60)})
	w.upgrade()
	w.reconcile()
	w.clock.Step(30 * time.Second)
	wantReason(t, w.reconcile(), clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "")
	w.clock.Step(31 * time.Second)
	wantReason(t, w.reconcile(), clusterv1.RollingOutCondition, infrav1.ProgressDeadlineExceededReason, "1 machines are not available (workers-")
	if len(leaving(w.hostMachines())) != 0 {
		t.Error("the old member was given up")
	}
	w.run()
	w.reconcile()
	w.release()
	pool := w.reconcile()
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.NotRollingOutReason, "")
}

// The cache may not show yet what the last reconcile did. The live read makes good
// for that: no second surge, no second member removed.
func TestStaleCacheInARollout(t *testing.T) {
	w := newRunning(t, 3, infrav1.HostMachinePoolStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	frozen := &frozenCache{Client: env.Client}
	frozen.freeze(t, w.key.Namespace)
	w.upgrade()
	w.Client = frozen
	for range 5 {
		if _, err := w.Reconcile(ctx, w.request()); err != nil {
			t.Fatal(err)
		}
	}
	deleted := 0
	for _, m := range w.machines() {
		if !m.DeletionTimestamp.IsZero() {
			deleted++
		}
	}
	if deleted != 1 {
		t.Errorf("%d Machines deleted with maxUnavailable 1", deleted)
	}
	if staying := len(w.hostMachines()) - deleted; staying != 4 {
		t.Errorf("%d members stay, want 4", staying)
	}
}

// frozenCache answers lists with what there was when it froze.
type frozenCache struct {
	client.Client
	hostMachines infrav1.HostMachineList
	machines     clusterv1.MachineList
}

func (f *frozenCache) freeze(t *testing.T, namespace string) {
	t.Helper()
	for _, list := range []client.ObjectList{&f.hostMachines, &f.machines} {
		if err := f.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *frozenCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch l := list.(type) {
	case *infrav1.HostMachineList:
		f.hostMachines.DeepCopyInto(l)
	case *clusterv1.MachineList:
		f.machines.DeepCopyInto(l)
	default:
		return f.Client.List(ctx, list, opts...)
	}
	return nil
}

// A move loses every status. Members keep version and revision, so nothing is
// rolled out anew.
func TestLossOfStatusRollsNothingOut(t *testing.T) {
	w := newRunning(t, 2, infrav1.HostMachinePoolStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	names := w.staying()
	pool := &infrav1.HostMachinePool{}
	if err := env.Client.Get(ctx, w.key, pool); err != nil {
		t.Fatal(err)
	}
	pool.Status = infrav1.HostMachinePoolStatus{}
	objects := []client.Object{pool}
	for _, m := range w.hostMachines() {
		m.Status = infrav1.HostMachineStatus{FailureDomain: "x"}
		objects = append(objects, &m)
	}
	for _, m := range w.machines() {
		m.Status = clusterv1.MachineStatus{Phase: "Pending"}
		objects = append(objects, &m)
	}
	for _, o := range objects {
		if err := env.Client.Status().Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	w.reconcile()
	for name := range w.staying() {
		if _, found := names[name]; !found {
			t.Errorf("%s was made", name)
		}
	}
	if n := len(leaving(w.hostMachines())); n != 0 {
		t.Errorf("%d members leave", n)
	}
}

func TestReplicasManagedByOthers(t *testing.T) {
	w := newRunning(t, 3, infrav1.HostMachinePoolStrategy{})
	w.changeMachinePool(func(mp *clusterv1.MachinePool) {
		mp.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "someone"}
		mp.Spec.Replicas = ptr.To[int32](9)
	})
	w.reconcile()
	if n := len(w.hostMachines()); n != 3 {
		t.Fatalf("%d members, want the 3 there were", n)
	}
	w.wantReplicas(3)

	machine := w.machines()[0]
	if err := env.Client.Delete(ctx, &machine); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if n := len(w.staying()); n != 2 {
		t.Fatalf("%d members after one was deleted", n)
	}
	w.wantReplicas(2)
	w.release()

	added := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "added", Labels: map[string]string{
		clusterv1.ClusterNameLabel: testenv.ClusterName, clusterv1.MachinePoolNameLabel: "workers",
	}}}
	if err := env.Client.Create(ctx, added); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	w.wantReplicas(3)
	if m := w.staying()["added"]; m.Spec.Version != testenv.Version || m.Labels[infrav1.RevisionLabel] == "" || len(m.OwnerReferences) != 1 {
		t.Errorf("the member was not taken in: %+v", m)
	}

	w.run()
	w.upgrade()
	for range 12 {
		w.reconcile()
		w.wantReplicas(3)
		w.run()
		w.reconcile()
		w.release()
	}
	if got := w.versions(); got[nextVersion] != 3 || len(got) != 1 {
		t.Errorf("versions = %v", got)
	}
}

func (w *world) wantReplicas(n int32) {
	w.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(w.machinePool), w.machinePool); err != nil {
		w.t.Fatal(err)
	}
	if got := ptr.Deref(w.machinePool.Spec.Replicas, 0); got != n {
		w.t.Errorf("spec.replicas of the MachinePool = %d, want %d", got, n)
	}
}

// pooledHosts makes hosts that offer both versions in racks a, b, c.
func (w *world) pooledHosts(n int) {
	w.t.Helper()
	for i := range n {
		agent := testenv.NewHost(w.t, env.Client, w.key.Namespace, fmt.Sprintf("host-%d", i), w.clock.Now(), func(h *infrav1.Host) {
			h.Spec.FailureDomain = string(rune('a' + i%3))
			h.Labels = map[string]string{"row": fmt.Sprint(i % 2)}
		})
		agent.Report(w.t, func(s *infrav1.HostStatus) {
			s.Inventory.KubernetesVersions = []string{testenv.Version, nextVersion}
			s.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resourceOf(fmt.Sprint(4 + i)), corev1.ResourceMemory: *resourceOf(fmt.Sprintf("%dGi", 64-i))}
		})
	}
}

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		spread infrav1.HostMachinePoolSpread
		want   map[string]int
	}{
		"failure domain": {infrav1.HostMachinePoolSpread{Hard: ptr.To(true)}, map[string]int{"a": 2, "b": 2, "c": 1}},
		"label":          {infrav1.HostMachinePoolSpread{Key: "row"}, map[string]int{"0": 3, "1": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 0, func(_ *clusterv1.MachinePool, pool *infrav1.HostMachinePool) { pool.Spec.Spread = &tc.spread })
			w.pooledHosts(6)
			w.scale(5)
			w.reconcile()
			got := map[string]int{}
			for _, m := range w.hostMachines() {
				got[m.Spec.Spread.Value]++
				if ptr.Deref(m.Spec.Spread.Hard, false) != ptr.Deref(tc.spread.Hard, false) || m.Spec.Spread.Key != tc.spread.Key {
					t.Errorf("spread = %+v", m.Spec.Spread)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("domains = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCapacityForScaleFromZero(t *testing.T) {
	w := newWorld(t, 0)
	w.pooledHosts(3)
	pool := w.reconcile()
	status := pool.Status
	if status.Capacity.Cpu().String() != "4" || status.Capacity.Memory().String() != "62Gi" ||
		status.NodeInfo != (infrav1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}) {
		t.Errorf("capacity %v, nodeInfo %+v", status.Capacity, status.NodeInfo)
	}
	w.changePool(func(p *infrav1.HostMachinePool) {
		p.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"row": "1"}}
	})
	w.clock.Step(time.Minute)
	if pool = w.reconcile(); pool.Status.Capacity.Cpu().String() != "5" {
		t.Errorf("capacity = %v", pool.Status.Capacity)
	}
}

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
	w.run()
	pool := w.reconcile()
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
		t.Error("the upgrade was ordered")
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

func (w *world) request() ctrl.Request { return ctrl.Request{NamespacedName: w.key} }

func resourceOf(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }

// broken fails every read of a Secret.
type broken struct{ client.Reader }

func (b broken) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Secret); ok {
		return errors.New("no connection")
	}
	return b.Reader.Get(ctx, key, o, opts...)
}

// A reconcile that fails before it could plan knows nothing new.
func TestErrorsKeepConditions(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.upgrade()
	before := w.reconcile()
	w.APIReader = broken{env.Client}
	w.clock.Step(time.Minute)
	if _, err := w.Reconcile(ctx, w.request()); err == nil {
		t.Fatal("no error")
	}
	after := &infrav1.HostMachinePool{}
	if err := env.Client.Get(ctx, w.key, after); err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(before.Status, after.Status) {
		t.Errorf("status = %+v, was %+v", after.Status, before.Status)
	}
}
