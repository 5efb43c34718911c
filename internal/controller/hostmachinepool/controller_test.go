package hostmachinepool_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinepool"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var (
	env *testenv.Env
	ctx = context.Background()
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, addToScheme, func(e *testenv.Env) error { env = e; return nil }))
}

func addToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	return nil
}

// world is a MachinePool with its HostMachinePool; the HostMachine controller and
// core are played.
type world struct {
	*hostmachinepool.Reconciler
	t           *testing.T
	clock       *clocktesting.FakeClock
	machinePool *clusterv1.MachinePool
	key         client.ObjectKey
}

func newWorld(t *testing.T, replicas int32, mutate ...func(*clusterv1.MachinePool, *infrav1.HostMachinePool)) *world {
	t.Helper()
	testenv.Skip(t)
	clock := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	w := &world{t: t, clock: clock, Reconciler: &hostmachinepool.Reconciler{
		Client: env.Client, APIReader: env.Client, Recorder: &events.FakeRecorder{}, Clock: clock,
	}}
	namespace := env.Namespace(t)
	testenv.NewCluster(t, env.Client, namespace)
	machinePool, pool := testenv.NewMachinePool(t, env.Client, namespace, "workers", replicas, mutate...)
	w.machinePool, w.key = machinePool, client.ObjectKeyFromObject(pool)
	return w
}

// reconcile returns nil when the pool is gone.
func (w *world) reconcile() *infrav1.HostMachinePool {
	w.t.Helper()
	for range 4 {
		if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil {
			w.t.Fatal(err)
		}
		testenv.PlayCore(w.t, env.Client, w.machinePool)
	}
	pool := &infrav1.HostMachinePool{}
	if err := env.Client.Get(ctx, w.key, pool); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		}
		return nil
	}
	return pool
}

func (w *world) scale(replicas int32) {
	w.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(w.machinePool), w.machinePool); err != nil {
		w.t.Fatal(err)
	}
	w.machinePool.Spec.Replicas = ptr.To(replicas)
	if err := env.Client.Update(ctx, w.machinePool); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) hostMachines() []infrav1.HostMachine {
	w.t.Helper()
	list := &infrav1.HostMachineList{}
	if err := env.Client.List(ctx, list, client.InNamespace(w.key.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

func (w *world) machines() []clusterv1.Machine {
	w.t.Helper()
	list := &clusterv1.MachineList{}
	if err := env.Client.List(ctx, list, client.InNamespace(w.key.Namespace)); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// claim gives every machine a host, as the HostMachine controller would.
func (w *world) claim() {
	w.t.Helper()
	for _, m := range w.hostMachines() {
		if m.Spec.ProviderID != "" {
			continue
		}
		m.Spec.ProviderID = infrav1.ProviderID(m.Namespace, "host-of-"+m.Name, m.Spec.ClaimID)
		if err := env.Client.Update(ctx, &m); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) provision(names ...string) {
	w.t.Helper()
	for _, m := range w.hostMachines() {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		m.Status.Initialization.Provisioned = ptr.To(true)
		if err := env.Client.Status().Update(ctx, &m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// release lets HostMachines that are being deleted go.
func (w *world) release() {
	w.t.Helper()
	for _, m := range w.hostMachines() {
		if m.DeletionTimestamp.IsZero() {
			continue
		}
		m.Finalizers = nil
		if err := env.Client.Update(ctx, &m); err != nil {
			w.t.Fatal(err)
		}
	}
	testenv.PlayCore(w.t, env.Client, w.machinePool)
}

func TestScaleUpAndDown(t *testing.T) {
	w := newWorld(t, 0)
	pool := w.reconcile()
	if !pool.Status.Ready || pool.Status.InfrastructureMachineKind != "HostMachine" || pool.Status.Replicas != 0 {
		t.Fatalf("an empty pool is not ready: %+v", pool.Status)
	}

	w.scale(3)
	pool = w.reconcile()
	if pool.Status.Replicas != 0 || len(pool.Status.Instances) != 3 || len(pool.Spec.ProviderIDList) != 0 || len(w.machines()) != 3 {
		t.Fatalf("status %+v, list %v, %d machines", pool.Status, pool.Spec.ProviderIDList, len(w.machines()))
	}
	for _, m := range w.hostMachines() {
		if !strings.HasPrefix(m.Name, "workers-") || m.Labels[clusterv1.MachinePoolNameLabel] != "workers" || m.Labels[clusterv1.ClusterNameLabel] != testenv.ClusterName {
			t.Errorf("member %s has labels %v", m.Name, m.Labels)
		}
		for _, ref := range m.OwnerReferences {
			if ref.Controller != nil && *ref.Controller {
				t.Errorf("the pool controls %s: core could not", m.Name)
			}
		}
	}

	w.claim()
	pool = w.reconcile()
	if ids := pool.Spec.ProviderIDList; len(ids) != 3 || !slices.IsSorted(ids) || pool.Status.Replicas != 3 {
		t.Fatalf("providerIDList = %v, %d replicas", ids, pool.Status.Replicas)
	}
	w.provision()
	pool = w.reconcile()
	if pool.Status.ReadyReplicas != 3 || !conditions.IsTrue(pool, clusterv1.ReadyCondition) || len(pool.Status.Instances) != 3 {
		t.Fatalf("status = %+v", pool.Status)
	}

	w.scale(1)
	pool = w.reconcile()
	if leaving := leaving(w.hostMachines()); len(leaving) != 2 {
		t.Fatalf("%d members leave, want 2", len(leaving))
	}
	if len(pool.Spec.ProviderIDList) != 3 || pool.Status.Replicas != 3 {
		t.Fatalf("a providerID left the list before its host was released: %v", pool.Spec.ProviderIDList)
	}
	if !conditions.IsTrue(pool, clusterv1.ScalingDownCondition) || !conditions.IsTrue(pool, clusterv1.ReadyCondition) {
		t.Errorf("conditions = %+v", pool.Status.Conditions)
	}
	w.release()
	pool = w.reconcile()
	if len(pool.Spec.ProviderIDList) != 1 || pool.Status.Replicas != 1 || len(w.machines()) != 1 || !pool.Status.Ready {
		t.Errorf("list %v, status %+v, %d machines", pool.Spec.ProviderIDList, pool.Status, len(w.machines()))
	}
}

func leaving(machines []infrav1.HostMachine) []string {
	var names []string
	for i := range machines {
		if !machines[i].DeletionTimestamp.IsZero() {
			names = append(names, machines[i].Name)
		}
	}
	return names
}

func TestReadiness(t *testing.T) {
	w := newWorld(t, 2)
	if pool := w.reconcile(); pool.Status.Ready || pool.Status.InfrastructureMachineKind == "" {
		t.Fatalf("status = %+v", pool.Status)
	}
	w.claim()
	pool := w.reconcile()
	if !pool.Status.Ready || !ptr.Deref(pool.Status.Initialization.Provisioned, false) {
		t.Fatalf("not ready although every member has a host: %+v", pool.Status)
	}
	w.scale(5)
	if pool = w.reconcile(); !pool.Status.Ready {
		t.Error("ready went back to false")
	}
}

// A pool that finds only one host shows the one it has.
func TestReadinessOfAPoolShortOfHosts(t *testing.T) {
	w := newWorld(t, 2)
	w.reconcile()
	first := w.hostMachines()[0]
	first.Spec.ProviderID = infrav1.ProviderID(first.Namespace, "host-1", first.Spec.ClaimID)
	if err := env.Client.Update(ctx, &first); err != nil {
		t.Fatal(err)
	}
	if pool := w.reconcile(); pool.Status.Ready {
		t.Fatal("ready with a host that does not run yet and one missing")
	}
	w.provision(first.Name)
	pool := w.reconcile()
	if !pool.Status.Ready || len(pool.Spec.ProviderIDList) != 1 {
		t.Errorf("status %+v, list %v", pool.Status, pool.Spec.ProviderIDList)
	}
}

func TestMarkedMachineGoesFirst(t *testing.T) {
	w := newWorld(t, 3)
	w.reconcile()
	w.claim()
	w.provision()
	w.reconcile()
	marked := w.machines()[1]
	marked.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: "true"}
	if err := env.Client.Update(ctx, &marked); err != nil {
		t.Fatal(err)
	}
	w.scale(2)
	w.reconcile()
	if names := leaving(w.hostMachines()); !slices.Equal(names, []string{marked.Name}) {
		t.Errorf("%v leave, want %s", names, marked.Name)
	}
}

// A Machine that was deleted by hand or by a MachineHealthCheck is replaced.
func TestDeletedMachineIsReplaced(t *testing.T) {
	w := newWorld(t, 2)
	w.reconcile()
	gone := w.machines()[0]
	if err := env.Client.Delete(ctx, &gone); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if n := len(w.hostMachines()) - len(leaving(w.hostMachines())); n != 2 {
		t.Errorf("%d members stay, want 2", n)
	}
}

// Core does not copy these settings to the Machines of a pool.
func TestMachineSettings(t *testing.T) {
	full := hostmachinepool.FullSpec()
	w := newWorld(t, 1, func(mp *clusterv1.MachinePool, _ *infrav1.HostMachinePool) { settings(&mp.Spec.Template.Spec, full) })
	w.reconcile()
	machine := w.machines()[0]
	got := clusterv1.MachineSpec{}
	if settings(&got, machine.Spec); !equality.Semantic.DeepEqual(got, full) {
		t.Fatalf("the Machine has %+v, want %+v", got, full)
	}
	before := machine.ResourceVersion
	w.reconcile()
	if after := w.machines()[0]; after.ResourceVersion != before {
		t.Error("the Machine is written at each reconcile")
	}
	for name, spec := range hostmachinepool.Without() {
		w.changeMachinePool(func(mp *clusterv1.MachinePool) { settings(&mp.Spec.Template.Spec, spec) })
		w.reconcile()
		got := clusterv1.MachineSpec{}
		if settings(&got, w.machines()[0].Spec); !equality.Semantic.DeepEqual(got, spec) {
			t.Errorf("without %s in the template the Machine has %+v", name, got)
		}
	}
}

// settings copies what TestMachineSettings is about.
func settings(to *clusterv1.MachineSpec, from clusterv1.MachineSpec) {
	to.MinReadySeconds, to.ReadinessGates, to.Deletion, to.Taints = from.MinReadySeconds, from.ReadinessGates, from.Deletion, from.Taints
}

// Who sees that a drain does not end changes the timeouts, whoever deleted the Machine.
func TestDeletionTimeoutsReachWhatDrains(t *testing.T) {
	for name, goes := range map[string]func(*world){
		"scaled in": func(w *world) { w.scale(0) },
		"pool is deleted": func(w *world) {
			if err := env.Client.Delete(ctx, w.reconcile()); err != nil {
				w.t.Fatal(err)
			}
		},
		"Machine is deleted": func(w *world) {
			if err := env.Client.Delete(ctx, &w.machines()[0]); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, func(mp *clusterv1.MachinePool, _ *infrav1.HostMachinePool) {
				mp.Spec.Template.Spec.MinReadySeconds = ptr.To(int32(7))
			})
			w.reconcile()
			w.claim()
			w.reconcile()
			goes(w)
			w.reconcile()
			for _, seconds := range []*int32{ptr.To(int32(61)), ptr.To(int32(5)), nil} {
				want := clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: seconds, NodeVolumeDetachTimeoutSeconds: seconds, NodeDeletionTimeoutSeconds: seconds}
				w.changeMachinePool(func(mp *clusterv1.MachinePool) {
					mp.Spec.Template.Spec.Deletion = want
					mp.Spec.Template.Spec.MinReadySeconds = ptr.To(int32(8))
				})
				w.reconcile()
				drains := 0
				for _, m := range w.machines() {
					if m.DeletionTimestamp.IsZero() {
						continue
					}
					drains++
					// core's webhook, which is not here, has a default for the last one
					if !ptr.Equal(m.Spec.Deletion.NodeDrainTimeoutSeconds, seconds) || !ptr.Equal(m.Spec.Deletion.NodeVolumeDetachTimeoutSeconds, seconds) || !ptr.Equal(m.Spec.Deletion.NodeDeletionTimeoutSeconds, seconds) {
						t.Errorf("timeouts of a Machine that drains: %+v, want %+v", m.Spec.Deletion, want)
					}
					if ptr.Deref(m.Spec.MinReadySeconds, 0) != 7 {
						t.Errorf("minReadySeconds of a Machine that drains is changed: %+v", m.Spec)
					}
				}
				if drains != 1 {
					t.Fatalf("%d Machines drain, want 1", drains)
				}
			}
		})
	}
}

func TestDeletion(t *testing.T) {
	w := newWorld(t, 2)
	w.reconcile()
	w.claim()
	pool := w.reconcile()
	if err := env.Client.Delete(ctx, pool); err != nil {
		t.Fatal(err)
	}
	pool = w.reconcile()
	if pool == nil || len(leaving(w.hostMachines())) != 2 || len(pool.Spec.ProviderIDList) != 2 {
		t.Fatalf("the pool does not wait for its machines: %+v", pool)
	}
	w.release()
	if pool = w.reconcile(); pool != nil {
		t.Errorf("the pool does not go: %+v", pool.Status)
	}
}

func TestPause(t *testing.T) {
	w := newWorld(t, 2, func(_ *clusterv1.MachinePool, p *infrav1.HostMachinePool) {
		p.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	pool := w.reconcile()
	if !conditions.IsTrue(pool, clusterv1.PausedCondition) || len(w.hostMachines()) != 0 {
		t.Errorf("a paused pool went on: %+v", pool.Status)
	}
}

// lagging answers lists from before the pool was scaled, as a cache may.
type lagging struct {
	client.Client
	hidden bool
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*infrav1.HostMachineList); ok && l.hidden {
		return nil
	}
	return l.Client.List(ctx, list, opts...)
}

func TestStaleCacheNeitherDoublesNorDrops(t *testing.T) {
	w := newWorld(t, 2)
	w.reconcile()
	w.claim()
	w.reconcile()
	stale := &lagging{Client: env.Client, hidden: true}
	w.Client = stale
	pool := w.reconcile()
	if n := len(w.hostMachines()); n != 2 {
		t.Errorf("%d members, want 2", n)
	}
	if len(pool.Spec.ProviderIDList) != 2 {
		t.Errorf("providerIDs were dropped on the word of the cache: %v", pool.Spec.ProviderIDList)
	}
	if len(leaving(w.hostMachines())) != 0 {
		t.Error("members were deleted on the word of the cache")
	}
}

// behind answers reads from before the pool was published last, as a cache may.
type behind struct {
	client.Client
	pool    *infrav1.HostMachinePool
	members *infrav1.HostMachineList
}

func (b *behind) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if pool, ok := object.(*infrav1.HostMachinePool); ok && b.pool != nil {
		b.pool.DeepCopyInto(pool)
		b.pool = nil // then it has caught up
		return nil
	}
	return b.Client.Get(ctx, key, object, opts...)
}

func (b *behind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if members, ok := list.(*infrav1.HostMachineList); ok {
		b.members.DeepCopyInto(members)
		return nil
	}
	return b.Client.List(ctx, list, opts...)
}

// A reconcile that read past the cache publishes what the cache doesn't have yet. The next
// one, that sees neither the list nor the member in the cache, must not take the ID back.
func TestStaleCacheTakesNoProviderIDBack(t *testing.T) {
	w := newWorld(t, 3)
	w.reconcile()
	cache := &behind{Client: env.Client, pool: w.reconcile(), members: &infrav1.HostMachineList{Items: w.hostMachines()}}
	w.claim()
	if pool := w.reconcile(); len(pool.Spec.ProviderIDList) != 3 {
		t.Fatalf("providerIDs %v", pool.Spec.ProviderIDList)
	}
	claimed := w.hostMachines()
	copy(cache.members.Items, claimed[:2])
	w.Client = cache
	if result, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil || result.RequeueAfter == 0 {
		t.Errorf("a conflict is no error, and asks for another look: %v, %v", result, err)
	}
	w.Client = env.Client
	pool := &infrav1.HostMachinePool{}
	if err := env.Client.Get(ctx, w.key, pool); err != nil {
		t.Fatal(err)
	}
	if len(pool.Spec.ProviderIDList) != 3 {
		t.Errorf("only %v are left: the Node of a running machine would go", pool.Spec.ProviderIDList)
	}
	if pool = w.reconcile(); len(pool.Spec.ProviderIDList) != 3 || pool.Status.Replicas != 3 {
		t.Errorf("afterwards: %v, %d replicas", pool.Spec.ProviderIDList, pool.Status.Replicas)
	}
}

// A member that is provisioned and not well is none that is ready; the pool stays
// provisioned all the same, which core relies on.
func TestReadyReplicasFall(t *testing.T) {
	w := newWorld(t, 2)
	w.reconcile()
	w.claim()
	w.provision()
	if pool := w.reconcile(); pool.Status.ReadyReplicas != 2 || !conditions.IsTrue(pool, clusterv1.ReadyCondition) {
		t.Fatalf("status %+v", pool.Status)
	}
	sick := w.hostMachines()[0]
	sick.Status.Version = "v1.35.4"
	conditions.Set(&sick, metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.NodeNotReadyReason, Message: "The Node has not been ready",
	})
	if err := env.Client.Status().Update(ctx, &sick); err != nil {
		t.Fatal(err)
	}
	pool := w.reconcile()
	if pool.Status.Replicas != 2 || pool.Status.ReadyReplicas != 1 || !pool.Status.Ready || !ptr.Deref(pool.Status.Initialization.Provisioned, false) {
		t.Errorf("status %+v", pool.Status)
	}
	want := "1 of 2 machines ready; " + sick.Name + ": The Node has not been ready"
	if ready := conditions.Get(pool, clusterv1.ReadyCondition); ready.Status != metav1.ConditionFalse || ready.Message != want {
		t.Errorf("Ready = %+v, want %q", ready, want)
	}
	for _, i := range pool.Status.Instances {
		if ill := i.InstanceName == sick.Name; i.Ready == ill || (i.Version == "v1.35.4") != ill {
			t.Errorf("instance %+v", i)
		}
	}
	// Every condition is of the generation that it was computed from.
	pool.Spec.ResetPolicy = infrav1.ResetPolicyManual
	if err := env.Client.Update(ctx, pool); err != nil {
		t.Fatal(err)
	}
	pool = w.reconcile()
	for _, condition := range pool.Status.Conditions {
		if condition.ObservedGeneration != pool.Generation {
			t.Errorf("%s is of generation %d, the object of %d", condition.Type, condition.ObservedGeneration, pool.Generation)
		}
	}
}
