package hostmachinepool_test

import (
	"context"
	"errors"
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

func TestHostSelectorMakesARevision(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.changePool(func(p *infrav1.HostMachinePool) {
		p.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	})
	if w.reconcile(); len(w.staying()) != 2 {
		t.Errorf("%d members", len(w.staying()))
	}
}

// The same size in another unit replaces nobody.
func TestMinCapacityMakesARevision(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	revision := func(memory string) string {
		w.changePool(func(p *infrav1.HostMachinePool) {
			p.Spec.MinCapacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		})
		return w.reconcile().Status.Revision
	}
	whichever, one, same := w.reconcile().Status.Revision, revision("1Gi"), revision("1024Mi")
	if whichever == one || one != same {
		t.Errorf("revision %s, of 1Gi %s, of 1024Mi %s", whichever, one, same)
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

func (w *world) request() ctrl.Request { return ctrl.Request{NamespacedName: w.key} }

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

// A pool that is scaled down to the machines that are ready is Ready once the others are deleted,
// not when the reconcile that was to delete them failed.
func TestErrorMakesNoPoolReady(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.scale(2)
	if pool := w.reconcile(); !conditions.IsFalse(pool, clusterv1.ReadyCondition) {
		t.Fatalf("a machine is missing: %+v", pool.Status.Conditions)
	}
	w.scale(1)
	live := w.APIReader
	w.APIReader = broken{env.Client}
	if _, err := w.Reconcile(ctx, w.request()); err == nil {
		t.Fatal("no error")
	}
	pool := &infrav1.HostMachinePool{}
	if err := env.Client.Get(ctx, w.key, pool); err != nil {
		t.Fatal(err)
	}
	if !conditions.IsFalse(pool, clusterv1.ReadyCondition) {
		t.Errorf("Ready = %+v", conditions.Get(pool, clusterv1.ReadyCondition))
	}
	w.APIReader = live
	if pool := w.reconcile(); !conditions.IsTrue(pool, clusterv1.ReadyCondition) {
		t.Errorf("Ready = %+v without an error", conditions.Get(pool, clusterv1.ReadyCondition))
	}
}
