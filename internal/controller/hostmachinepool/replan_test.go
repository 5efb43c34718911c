package hostmachinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/pool"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

var (
	onRack = infrav1.Placement{HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "x"}}}
	plain  = func(*infrav1.HostMachine) {}
)

// withData gives the MachinePool bootstrap data, without which nothing is made.
func withData(d *desk) []client.Object {
	d.scope.machinePool.Spec.Template.Spec.Bootstrap.DataSecretName = ptr.To("data")
	return []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "data"}, Data: map[string][]byte{bootstrapDataKey: []byte("#cloud-config\n{}")}}}
}

// live gives the API server what the cache does not know yet: more objects, and none of those
// with a name in gone.
func (d *desk) live(more []client.Object, gone ...string) {
	objects := slices.DeleteFunc(slices.Concat(d.objects, more), func(o client.Object) bool { return slices.Contains(gone, o.GetName()) })
	for i := range objects {
		objects[i] = objects[i].DeepCopyObject().(client.Object)
		objects[i].SetResourceVersion("")
	}
	d.APIReader = d.counted(fake.NewClientBuilder().WithScheme(d.Client.Scheme()).WithObjects(objects...).Build())
}

// TestStepsArePlannedAgainLive: what the cache lacks is looked for past it before anything is made or
// deleted, and a pool that is as it should be costs no read.
func TestStepsArePlannedAgainLive(t *testing.T) {
	for name, c := range map[string]struct {
		members, replicas int
		// live are members that only the API server knows.
		live   int
		gone   string
		goes   bool
		writes []string
		events []string
		reads  bool
		frozen string
	}{
		"as it should be":                   {members: 2, replicas: 2},
		"too few":                           {members: 1, replicas: 3, writes: []string{"create", "create"}, events: []string{"Normal ScaledUp Adding 2 machines: "}, reads: true},
		"too few, as the cache has it":      {members: 1, replicas: 3, live: 2, reads: true},
		"too few, and the MachinePool gone": {members: 1, replicas: 3, gone: "c", reads: true, frozen: "Cluster c is gone"},
		"too many":                          {members: 2, replicas: 1, writes: []string{"delete m0"}, events: []string{"Normal ScaledDown Removing 1 machine: "}, reads: true},
		"too many, as the cache has it":     {members: 2, replicas: 1, gone: "m0", reads: true},
		"a pool that goes":                  {members: 2, replicas: 2, goes: true, writes: []string{"delete m0", "delete m1"}, events: []string{"Normal ScaledDown Removing 2 machines: "}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, slices.Repeat([]func(*infrav1.HostMachine){plain}, c.members)...)
			data := withData(d)
			d.scope.machinePool.Spec.Replicas = ptr.To(int32(c.replicas))
			d.live(data)
			// The members are of the revision of now.
			if err := d.computeRevision(t.Context(), d.scope, false); err != nil {
				t.Fatal(err)
			}
			current := func(m *infrav1.HostMachine) {
				m.Labels[infrav1.RevisionLabel], m.Spec.Version = d.scope.revision, "v1.36.3"
			}
			for _, o := range d.objects[3:] {
				current(o.(*infrav1.HostMachine))
			}
			for i := range d.scope.hostMachines {
				current(&d.scope.hostMachines[i])
			}
			for i := range c.live {
				data = append(data, member(d.scope.pool, fmt.Sprint("live", i), current))
			}
			d.live(data, c.gone)
			d.reads = 0
			if c.goes {
				d.scope.pool.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
				d.scope.machinePool, d.scope.frozen = nil, "it goes"
			}
			if err := d.carryOut(t.Context(), d.scope); err != nil {
				t.Fatal(err)
			}
			for i := range d.writes {
				d.writes[i], _, _ = strings.Cut(d.writes[i], " workers")
			}
			told := d.reported()
			for i := range told {
				told[i] = told[i][:strings.LastIndex(told[i], ": ")+2]
			}
			if !slices.Equal(d.writes, c.writes) || !slices.Equal(told, c.events) || (d.reads > 0) != c.reads {
				t.Errorf("%d live reads, writes %q and events %q", d.reads, d.writes, told)
			}
			if steps := len(d.scope.plan.Steps); !d.scope.planned || steps != len(c.writes) || !c.goes && d.scope.frozen != c.frozen {
				t.Errorf("planned %t: %d steps, frozen: %q", d.scope.planned, steps, d.scope.frozen)
			}
		})
	}
}

// TestSpareHostsAreCountedLive: where a free host may cost a member its own, what waits for one is counted past
// the cache; a pool that gives up no host looks at none.
func TestSpareHostsAreCountedLive(t *testing.T) {
	d := newDesk(t, plain)
	waiting := member(d.scope.pool, "waiting")
	waiting.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	waiting.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "waiting"}}
	spare := freeHost("spare", "x", "1")
	spare.Namespace, spare.Status.Inventory.KubernetesVersions = ns, []string{"v1.36.3"}
	for _, o := range []client.Object{spare, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "waiting"}}} {
		if err := d.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	d.live(append(withData(d), waiting))
	if err := d.readLive(t.Context(), d.scope); err != nil || d.scope.hosts != nil {
		t.Errorf("%v, sees hosts: %t", err, d.scope.hosts != nil)
	}
	d.scope.pool.Spec.Strategy.NoSpareHost = infrav1.NoSpareHostInPlace
	if err := d.countFreeHosts(t.Context(), d.scope, d.Client); err != nil || d.scope.hosts.free != 1 {
		t.Fatalf("%v, as the cache has it, free: %+v", err, d.scope.hosts)
	}
	if err := d.readLive(t.Context(), d.scope); err != nil || d.scope.hosts.free != 0 {
		t.Errorf("%v, a host that another machine waits for is counted: %d", err, d.scope.hosts.free)
	}
}

// TestMalformedSelectorReplacesNobody: a selector that cannot be read, should admission have missed it, is an error
// and neither makes nor deletes anything. A pool that goes does not need it.
func TestMalformedSelectorReplacesNobody(t *testing.T) {
	made, err := revisionOf("", infrav1.Placement{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	older := func(m *infrav1.HostMachine) { m.Labels[infrav1.RevisionLabel] = made }
	d := newDesk(t, older, older)
	d.live(withData(d))
	d.scope.machinePool.Spec.Replicas = ptr.To(int32(3))
	d.scope.pool.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "disk", Operator: "Bogus"}}}
	if err := reconciler.Run(t.Context(), d.scope, d.phases(d.scope)); err == nil || !strings.Contains(err.Error(), "hostSelector") || len(d.writes) > 0 {
		t.Errorf("%v, writes %q", err, d.writes)
	}
	d.scope.machinePool = nil
	d.scope.pool.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	if err := d.carryOut(t.Context(), d.scope); err != nil || !slices.Equal(d.writes, []string{"delete m0", "delete m1"}) {
		t.Errorf("%v, writes %q of a pool that goes", err, d.writes)
	}
}

// TestMakingRoomComesFirst: nothing is made after a deletion that failed.
func TestMakingRoomComesFirst(t *testing.T) {
	d := newDesk(t, plain, plain)
	data := withData(d)
	d.scope.machinePool.Spec.Replicas = ptr.To(int32(2))
	d.live(data)
	// Both are of another revision, and one may be missing meanwhile.
	d.refuse = errors.New("no")
	if err := d.carryOut(t.Context(), d.scope); err == nil || !slices.Equal(d.writes, []string{"delete m0"}) || len(d.reported()) > 0 {
		t.Errorf("%v after %q", err, d.writes)
	}
}

// TestFewAreMadeAtOnce: the members of a large pool are made ten at a time.
func TestFewAreMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		var now atomic.Int32
		proceed := make(chan struct{})
		d.Client = interceptor.NewClient(d.Client.(client.WithWatch), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				now.Add(1)
				<-proceed
				return nil
			},
		})
		ended := make(chan error)
		go func() {
			ended <- d.create(t.Context(), d.scope, slices.Repeat([]pool.Step{{Action: pool.ActionCreate}}, 3*createsAtOnce))
		}()
		synctest.Wait()
		if n := now.Load(); n != createsAtOnce {
			t.Errorf("%d at once", n)
		}
		close(proceed)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestStepsAreLogged: the log names the object of each step.
func TestStepsAreLogged(t *testing.T) {
	for action, want := range map[pool.Action]string{
		pool.ActionDeleteMachine:     `"Machine"={"name"="m0" "namespace"="tenant"}`,
		pool.ActionDeleteHostMachine: `"HostMachine"={"name"="m0" "namespace"="tenant"}`,
		pool.ActionUpgrade:           `"HostMachine"={"name"="m0" "namespace"="tenant"}`,
		pool.ActionMove:              `"HostMachine"={"name"="m0" "namespace"="tenant"} "domain"="x"`,
	} {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		d := newDesk(t, plain)
		if err := d.do(ctrl.LoggerInto(t.Context(), log), d.scope, pool.Step{Action: action, Name: "m0", Domain: "x"}); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(lines, "\n"); !strings.Contains(all, want) {
			t.Errorf("%s: %s", action, all)
		}
	}
}

// TestAlignPassesOnAWish: a member whose host satisfies the present selector gets that and the present revision. Any
// other one waits to be replaced.
func TestAlignPassesOnAWish(t *testing.T) {
	for rack, fits := range map[string]bool{"x": true, "y": false} {
		t.Run(rack, func(t *testing.T) {
			made, err := revisionOf("data", infrav1.Placement{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := newDesk(t, func(m *infrav1.HostMachine) {
				m.Labels[infrav1.RevisionLabel], m.Spec.Version = made, "v1.35.4"
				m.Spec.ProviderID = infrav1.ProviderID(ns, "host", "claim")
			})
			d.scope.pool.Spec.Placement, d.scope.fingerprint = onRack, "data"
			if d.scope.hosts, err = viewHosts(placement.Of(freeHost("host", rack, "1")), placement.Request{Placement: onRack}, nil); err != nil {
				t.Fatal(err)
			}
			if err := d.alignMembers(t.Context(), d.scope); err != nil {
				t.Fatal(err)
			}
			m := d.stored(t, "m0")
			if (m.Labels[infrav1.RevisionLabel] == revision) != fits || (m.Spec.HostSelector != nil) != fits || m.Spec.Version != "v1.35.4" || (len(d.writes) == 1) != fits {
				t.Errorf("revision %s, selector %+v, writes %q", m.Labels[infrav1.RevisionLabel], m.Spec.HostSelector, d.writes)
			}
		})
	}
}

// TestReplicasFollowTheMembers: only where somebody else manages their number, and when it differs.
func TestReplicasFollowTheMembers(t *testing.T) {
	for name, c := range map[string]struct {
		external        bool
		replicas        *int32
		planned, writes int
	}{
		"of its own":             {false, ptr.To(int32(3)), 1, 0},
		"of others":              {true, ptr.To(int32(3)), 1, 1},
		"of others, as they are": {true, ptr.To(int32(1)), 1, 0},
		"of others, by default":  {true, nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, plain)
			d.scope.machinePool.Spec.Replicas, d.scope.pool.Status.Ready, d.scope.plan.Desired = c.replicas, true, c.planned
			if c.external {
				d.scope.machinePool.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "autoscaler"}
			}
			if err := d.reportReplicas(t.Context(), d.scope); err != nil {
				t.Fatal(err)
			}
			if len(d.writes) != c.writes || c.writes > 0 && ptr.Deref(d.scope.machinePool.Spec.Replicas, 0) != int32(c.planned) {
				t.Errorf("writes %q, replicas %d", d.writes, ptr.Deref(d.scope.machinePool.Spec.Replicas, 0))
			}
		})
	}
}
