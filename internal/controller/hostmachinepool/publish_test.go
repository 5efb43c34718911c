package hostmachinepool

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var errBroken = errors.New("broken")

// testPool is a pool that has these providerIDs in its list.
func testPool(ids ...string) *infrav1.HostMachinePool {
	pool := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pool", UID: "uid", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}, ResourceVersion: "7",
		Finalizers: []string{infrav1.HostMachinePoolFinalizer},
	}}
	pool.Spec.ProviderID, pool.Spec.ProviderIDList = poolID(pool), ids
	return pool
}

func testScope(pool *infrav1.HostMachinePool) *scope {
	return newScope(pool, &clusterv1.MachinePool{Spec: clusterv1.MachinePoolSpec{ClusterName: "c1"}}, nil)
}

// testMembers are HostMachines of that pool, each with its name as its providerID.
func testMembers(names ...string) []infrav1.HostMachine {
	var members []infrav1.HostMachine
	for _, name := range names {
		m := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{
			clusterv1.ClusterNameLabel: "c1", clusterv1.MachinePoolNameLabel: "pool",
		}}}
		m.Spec.ProviderID = name
		members = append(members, m)
	}
	return members
}

// Core deletes the Node of an ID that is dropped from the list. So none is dropped because the cache
// does not show its member. Without a change there is neither a live read nor a write.
func TestPublishedIDs(t *testing.T) {
	for name, tc := range map[string]struct {
		listed, cached, live []string
		// change is made to the pool before, as the controller has read it.
		change func(pool *infrav1.HostMachinePool)
		// unreadable and unwritable fail the live read and the write.
		unreadable, unwritable bool
		want                   []string
		reads, writes          int
		fails                  bool
	}{
		"nothing changed":                       {listed: []string{"a", "b"}, cached: []string{"a", "b"}, live: []string{"a", "b"}, want: []string{"a", "b"}},
		"unsorted in the cache":                 {listed: []string{"a", "b"}, cached: []string{"b", "a"}, live: []string{"a", "b"}, want: []string{"a", "b"}},
		"a member that the cache does not show": {listed: []string{"a", "b"}, cached: []string{"a"}, live: []string{"a", "b"}, want: []string{"a", "b"}, reads: 1},
		"the cache shows none":                  {listed: []string{"a", "b"}, live: []string{"a", "b"}, want: []string{"a", "b"}, reads: 1},
		"a member that is gone":                 {listed: []string{"a", "b"}, cached: []string{"b"}, live: []string{"b"}, want: []string{"b"}, reads: 1, writes: 1},
		"one is gone, one is hidden":            {listed: []string{"a", "b", "c"}, cached: []string{"b"}, live: []string{"b", "c"}, want: []string{"b", "c"}, reads: 1, writes: 1},
		"a new member":                          {listed: []string{"b"}, cached: []string{"a", "b"}, live: []string{"a", "b"}, unreadable: true, want: []string{"a", "b"}, writes: 1},
		"a member without a host":               {listed: []string{"b"}, cached: []string{"", "b"}, live: []string{"b"}, unreadable: true, want: []string{"b"}},
		"the API server does not answer":        {listed: []string{"a", "b"}, cached: []string{"a"}, live: []string{"a", "b"}, unreadable: true, want: []string{"a", "b"}, reads: 1, fails: true},
		"the list is not written":               {listed: []string{"b"}, cached: []string{"a", "b"}, live: []string{"a", "b"}, unwritable: true, want: []string{"b"}, writes: 1, fails: true},
		"the pool has no ID yet": {
			listed: []string{"a"}, cached: []string{"a"}, live: []string{"a"}, want: []string{"a"}, writes: 1,
			change: func(pool *infrav1.HostMachinePool) { pool.Spec.ProviderID = "" },
		},
		"the pool was written since it was read": {
			listed: []string{"b"}, cached: []string{"a", "b"}, live: []string{"a", "b"}, want: []string{"b"}, writes: 1, fails: true,
			change: func(pool *infrav1.HostMachinePool) { pool.ResourceVersion = "6" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			pool := testPool(tc.listed...)
			stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pool)
			for _, m := range testMembers(tc.live...) {
				stored.WithObjects(&m)
			}
			store, reads, writes := stored.Build(), 0, 0
			r := &Reconciler{
				Recorder: &events.FakeRecorder{},
				Client: interceptor.NewClient(store, interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
						if members, ok := list.(*infrav1.HostMachineList); ok {
							members.Items = testMembers(tc.cached...)
							return nil
						}
						return c.List(ctx, list, options...)
					},
					Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
						writes++
						if tc.unwritable {
							return errBroken
						}
						return c.Patch(ctx, o, patch, options...)
					},
				}),
				APIReader: interceptor.NewClient(store, interceptor.Funcs{
					List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
						if _, ok := list.(*infrav1.HostMachineList); ok {
							reads++
						}
						if tc.unreadable {
							return errBroken
						}
						return c.List(ctx, list, options...)
					},
				}),
			}
			if tc.change != nil {
				tc.change(pool)
			}
			pool.Status.Replicas = 9
			s := testScope(pool)
			if err := r.readMembers(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			err := r.publish(t.Context(), s)
			if (err != nil) != tc.fails || reads != tc.reads || writes != tc.writes {
				t.Errorf("%d live reads, %d writes, error %v; want %d, %d, an error: %t", reads, writes, err, tc.reads, tc.writes, tc.fails)
			}
			after := &infrav1.HostMachinePool{}
			if err := store.Get(t.Context(), client.ObjectKeyFromObject(pool), after); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(after.Spec.ProviderIDList, tc.want) || after.Spec.ProviderID != poolID(pool) {
				t.Errorf("stored ID %q, list %v, want %v", after.Spec.ProviderID, after.Spec.ProviderIDList, tc.want)
			}
			if replicas := int32(len(tc.want)); tc.fails && pool.Status.Replicas != 9 || !tc.fails && pool.Status.Replicas != replicas {
				t.Errorf("%d replicas in status", pool.Status.Replicas)
			}
			if !tc.fails && (!slices.Equal(pool.Spec.ProviderIDList, tc.want) || pool.Spec.ProviderID != poolID(pool) || pool.ResourceVersion != after.ResourceVersion) {
				t.Errorf("the controller goes on with %+v, stored is %+v", pool.Spec, after.Spec)
			}
		})
	}
}

// Core reads the pool once it is ready. A pool stays ready, and has one event for it.
func TestPoolBecomesReadyOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		desired, claimed int
		running          bool
		change           func(pool *infrav1.HostMachinePool)
		ready            bool
		events           int
	}{
		"every member has a host":        {desired: 2, claimed: 2, ready: true, events: 1},
		"more than are wanted":           {desired: 1, claimed: 2, ready: true, events: 1},
		"an empty pool":                  {ready: true, events: 1},
		"one has no host":                {desired: 2, claimed: 1},
		"one has no host, another runs":  {desired: 2, claimed: 1, running: true, ready: true, events: 1},
		"ready already, and one is lost": {desired: 2, claimed: 1, change: func(pool *infrav1.HostMachinePool) { pool.Status.Ready = true }, ready: true},
		"ready already":                  {desired: 2, claimed: 2, change: func(pool *infrav1.HostMachinePool) { pool.Status.Ready = true }, ready: true},
		"being deleted":                  {desired: 0, claimed: 2, change: func(pool *infrav1.HostMachinePool) { pool.DeletionTimestamp = ptr.To(metav1.Now()) }},
	} {
		t.Run(name, func(t *testing.T) {
			pool := testPool()
			if tc.change != nil {
				tc.change(pool)
			}
			s := testScope(pool)
			s.plan.Desired = tc.desired
			s.hostMachines = testMembers("a", "b")
			s.hostMachines[0].Status.Initialization.Provisioned = ptr.To(tc.running)
			recorder := events.NewFakeRecorder(4)
			(&Reconciler{Recorder: recorder}).describe(s, tc.claimed)
			status := pool.Status
			if status.Ready != tc.ready || ptr.Deref(status.Initialization.Provisioned, false) != tc.ready || len(recorder.Events) != tc.events {
				t.Errorf("ready %t, provisioned %v, %d events", status.Ready, status.Initialization.Provisioned, len(recorder.Events))
			}
			wantReady := int32(0)
			if tc.running {
				wantReady = 1
			}
			if status.InfrastructureMachineKind != machineKind || status.Replicas != int32(tc.claimed) || status.ReadyReplicas != wantReady || len(status.Instances) != 2 {
				t.Errorf("status %+v", status)
			}
		})
	}
}

// An instance shows all that its member shows. Instances are sorted, members need not be.
func TestInstancesTellTheirMembers(t *testing.T) {
	s := testScope(testPool())
	s.hostMachines = testMembers("b", "a")
	m := &s.hostMachines[0]
	m.Labels[infrav1.RevisionLabel] = "r7"
	m.Status.HostRef.Name, m.Status.Version = "host-b", "v1.36.3"
	m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.5"}}
	m.Status.Initialization.Provisioned = ptr.To(true)
	leaving := m.DeepCopy()
	leaving.Name, leaving.DeletionTimestamp = "c", ptr.To(metav1.Now())
	s.hostMachines = append(s.hostMachines, *leaving)
	got := instances(s)
	if len(got) != 3 || got[0].InstanceName != "a" || got[0].Ready || got[2].InstanceName != "c" || got[2].Ready {
		t.Fatalf("instances %+v", got)
	}
	b := got[1]
	if b.InstanceName != "b" || b.HostName != "host-b" || b.ProviderID != "b" || b.Version != "v1.36.3" || b.Revision != "r7" || !b.Ready ||
		!slices.Equal(b.Addresses, m.Status.Addresses) {
		t.Errorf("instance %+v", b)
	}
}

// A deleted pool stays while one HostMachine or one Machine of it does: core's Machine drains and
// deletes its Node by what the pool has published.
func TestPoolWaitsForMachinesAndHostMachines(t *testing.T) {
	for name, tc := range map[string]struct{ hostMachines, machines, goes bool }{
		"both":               {hostMachines: true, machines: true},
		"a HostMachine only": {hostMachines: true},
		"a Machine only":     {machines: true},
		"none":               {goes: true},
	} {
		s := newScope(testPool(), nil, nil)
		if tc.hostMachines {
			s.hostMachines = testMembers("a")
		}
		if tc.machines {
			s.machines = make([]clusterv1.Machine, 1)
		}
		if err := (&Reconciler{}).finish(t.Context(), s); err != nil || (len(s.pool.Finalizers) == 0) != tc.goes {
			t.Errorf("%s: finalizers %v, error %v", name, s.pool.Finalizers, err)
		}
	}
}

// After an error not all was seen: the pool does not become Ready by that, but may cease to be.
func TestPoolBecomesNotReadyAfterAnError(t *testing.T) {
	for name, tc := range map[string]struct {
		before metav1.ConditionStatus
		ready  int32
		failed bool
		want   metav1.ConditionStatus
	}{
		"seen to be ready":                        {before: metav1.ConditionFalse, ready: 2, want: metav1.ConditionTrue},
		"seen to be not ready":                    {before: metav1.ConditionTrue, ready: 1, want: metav1.ConditionFalse},
		"not ready, an error":                     {before: metav1.ConditionFalse, ready: 2, failed: true, want: metav1.ConditionFalse},
		"of which nothing was known, an error":    {ready: 2, failed: true, want: ""},
		"ready, an error":                         {before: metav1.ConditionTrue, ready: 2, failed: true, want: metav1.ConditionTrue},
		"ready, an error, and a machine is lost":  {before: metav1.ConditionTrue, ready: 1, failed: true, want: metav1.ConditionFalse},
		"unknown, an error, and a machine is off": {ready: 1, failed: true, want: metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			pool := testPool()
			if tc.before != "" {
				conditions.Set(pool, metav1.Condition{Type: clusterv1.ReadyCondition, Status: tc.before, Reason: "Before"})
			}
			pool.Status.ReadyReplicas = tc.ready
			s := testScope(pool)
			s.plan.Desired = 2
			setConditions(s, tc.failed)
			got := metav1.ConditionStatus("")
			if ready := conditions.Get(pool, clusterv1.ReadyCondition); ready != nil {
				got = ready.Status
			}
			if got != tc.want {
				t.Errorf("Ready is %q, want %q", got, tc.want)
			}
			for _, other := range []string{
				clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition,
				clusterv1.MachinesReadyCondition, clusterv1.MachinesUpToDateCondition,
			} {
				if !conditions.Has(pool, other) {
					t.Errorf("%s is not set", other)
				}
			}
		})
	}
}
