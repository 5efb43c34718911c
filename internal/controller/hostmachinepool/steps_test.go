package hostmachinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

// desk is a reconciler with an API server that only counts, for phases by themselves.
type desk struct {
	*Reconciler
	scope *scope
	// writes are the names of what was written, reads is how much was read past the cache.
	writes []string
	reads  int
	// refuse is how the API server answers a write.
	refuse error
	// objects are those of the cache.
	objects []client.Object
	events  *events.FakeRecorder
}

const (
	revision = "r2"
	ns       = "tenant"
)

// member is a HostMachine as the pool makes it now.
func member(p *infrav1.HostMachinePool, name string, change ...func(*infrav1.HostMachine)) *infrav1.HostMachine {
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, Labels: map[string]string{infrav1.RevisionLabel: revision, clusterv1.ClusterNameLabel: "c", clusterv1.MachinePoolNameLabel: "workers"},
		OwnerReferences: []metav1.OwnerReference{ownerReference(p)}, Finalizers: []string{infrav1.HostMachineFinalizer},
	}}
	m.Spec.ResetPolicy = p.Spec.ResetPolicy
	for _, f := range change {
		f(m)
	}
	return m
}

func newDesk(t *testing.T, members ...func(*infrav1.HostMachine)) *desk {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	p := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "workers", UID: "uid"}}
	mp := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "workers"}}
	mp.Spec.ClusterName, mp.Spec.Template.Spec.Version = "c", "v1.36.3"
	d := &desk{events: events.NewFakeRecorder(10)}
	d.objects = []client.Object{p, mp, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "c"}}}
	for i, change := range members {
		d.objects = append(d.objects, member(p, fmt.Sprint("m", i), change))
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d.objects...).Build()
	wrote := func(verb string, o client.Object) error {
		d.writes = append(d.writes, verb+" "+strings.TrimSuffix(o.GetName(), "-"))
		return d.refuse
	}
	writer := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := wrote("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := wrote("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := wrote("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
	})
	d.Reconciler = &Reconciler{Client: writer, APIReader: d.counted(c), Recorder: d.events, Clock: clocktesting.NewFakeClock(time.Unix(1, 0))}
	d.scope = newScope(p, mp, nil)
	d.scope.revision = revision
	if err := d.scope.read(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(d.scope.hostMachines, func(a, b infrav1.HostMachine) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// counted is a client for live reads.
func (d *desk) counted(c client.WithWatch) client.Reader {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			d.reads++
			return c.Get(ctx, key, o, options...)
		},
	})
}

func (d *desk) stored(t *testing.T, name string) *infrav1.HostMachine {
	t.Helper()
	m := &infrav1.HostMachine{}
	if err := d.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAlignWritesWhatDiffers: a member that is as the pool makes it costs neither a write nor a read past the cache.
func TestAlignWritesWhatDiffers(t *testing.T) {
	deleted := func(m *infrav1.HostMachine) { m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	unlabelled := func(m *infrav1.HostMachine) { delete(m.Labels, infrav1.RevisionLabel) }
	for name, c := range map[string]struct {
		member func(*infrav1.HostMachine)
		scope  func(*scope)
		writes int
		// revision it has then, unless it is that of the pool.
		revision string
	}{
		"as it is":            {member: func(*infrav1.HostMachine) {}},
		"of another revision": {member: func(m *infrav1.HostMachine) { m.Labels[infrav1.RevisionLabel] = "r1" }},
		"without one":         {member: unlabelled, writes: 1},
		"of another policy":   {member: func(m *infrav1.HostMachine) { m.Spec.ResetPolicy = infrav1.ResetPolicyManual }, writes: 1},
		"of another policy and revision": {member: func(m *infrav1.HostMachine) {
			m.Labels[infrav1.RevisionLabel], m.Spec.ResetPolicy = "r1", infrav1.ResetPolicyManual
		}, writes: 1, revision: "r1"},
		"of no pool":                    {member: func(m *infrav1.HostMachine) { m.OwnerReferences = nil }, writes: 1},
		"deleted":                       {member: func(m *infrav1.HostMachine) { unlabelled(m); deleted(m) }},
		"the revision is not known":     {member: unlabelled, scope: func(s *scope) { s.revision = "" }},
		"the pool goes":                 {member: unlabelled, scope: func(s *scope) { s.frozen = "it goes" }},
		"the MachinePool goes, live":    {member: unlabelled, scope: func(s *scope) { s.machinePool.Name = "gone" }},
		"the Cluster of the pool, live": {member: unlabelled, scope: func(s *scope) { s.machinePool.Spec.ClusterName = "gone" }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.member)
			before := d.stored(t, "m0")
			if c.scope != nil {
				c.scope(d.scope)
			}
			if err := d.alignMembers(t.Context(), d.scope); err != nil {
				t.Fatal(err)
			}
			if len(d.writes) != c.writes || c.writes == 0 && c.scope == nil && d.reads > 0 {
				t.Errorf("%d reads past the cache and writes %q, want %d", d.reads, d.writes, c.writes)
			}
			after := d.stored(t, "m0")
			if c.writes == 0 && after.ResourceVersion != before.ResourceVersion {
				t.Errorf("changed to %+v", after)
			}
			if c.writes > 0 && (after.Labels[infrav1.RevisionLabel] != cmp.Or(c.revision, revision) || len(after.OwnerReferences) != 1 || after.Spec.ResetPolicy != d.scope.pool.Spec.ResetPolicy) {
				t.Errorf("aligned to %+v", after)
			}
		})
	}
}

// TestAlignTakesAVersion: a member that somebody else made has that of its Node, and of the pool when nobody knows better.
func TestAlignTakesAVersion(t *testing.T) {
	for name, c := range map[string]struct {
		spec, status, machine, want string
	}{
		"its own":    {"v1.34.1", "v1.34.2", "v1.34.3", "v1.34.1"},
		"it runs":    {"", "v1.34.2", "v1.34.3", "v1.34.2"},
		"core tells": {"", "", "v1.34.3", "v1.34.3"},
		"nobody":     {"", "", "", "v1.36.3"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(m *infrav1.HostMachine) {
				delete(m.Labels, infrav1.RevisionLabel)
				m.Spec.Version, m.Status.Version = c.spec, c.status
			})
			if c.machine != "" {
				d.scope.machines, d.scope.machineAt = []clusterv1.Machine{{}}, map[string]int{"m0": 0}
				d.scope.machines[0].Spec.Version = c.machine
			}
			if err := d.alignMembers(t.Context(), d.scope); err != nil {
				t.Fatal(err)
			}
			if got := d.stored(t, "m0").Spec.Version; got != c.want {
				t.Errorf("version %q, want %q", got, c.want)
			}
		})
	}
}

// TestAlignFails: a refused write ends it, a member that is gone does not.
func TestAlignFails(t *testing.T) {
	unlabelled := func(m *infrav1.HostMachine) { delete(m.Labels, infrav1.RevisionLabel) }
	d := newDesk(t, unlabelled, unlabelled)
	d.refuse = errors.New("no")
	if err := d.alignMembers(t.Context(), d.scope); err == nil || !strings.Contains(err.Error(), "HostMachine m0") || len(d.writes) != 1 {
		t.Errorf("%v after %q", err, d.writes)
	}
	d = newDesk(t, unlabelled)
	gone := d.scope.hostMachines[0].DeepCopy()
	gone.Name = "gone"
	d.scope.hostMachines = append([]infrav1.HostMachine{*gone}, d.scope.hostMachines...)
	if err := d.alignMembers(t.Context(), d.scope); err != nil || d.stored(t, "m0").Labels[infrav1.RevisionLabel] != revision {
		t.Errorf("%v, writes %q", err, d.writes)
	}
}

// TestStepsAreCarriedOut: each step of a plan writes one object, and says what it did.
func TestStepsAreCarriedOut(t *testing.T) {
	hard := true
	for name, c := range map[string]struct {
		step   pool.Step
		writes []string
		check  func(m *infrav1.HostMachine) bool
	}{
		"upgrade": {pool.Step{Action: pool.ActionUpgrade, Name: "m1"}, []string{"patch m1"}, func(m *infrav1.HostMachine) bool { return m.Spec.Version == "v1.36.3" }},
		"move": {pool.Step{Action: pool.ActionMove, Name: "m1", Domain: "x"}, []string{"patch m1"}, func(m *infrav1.HostMachine) bool {
			return reflect.DeepEqual(m.Spec.Spread, &infrav1.SpreadDomain{Key: "rack", Value: "x", Hard: &hard})
		}},
		"a HostMachine":          {pool.Step{Action: pool.ActionDeleteHostMachine, Name: "m1"}, []string{"delete m1"}, func(m *infrav1.HostMachine) bool { return !m.DeletionTimestamp.IsZero() }},
		"a Machine that is gone": {pool.Step{Action: pool.ActionDeleteMachine, Name: "m1"}, []string{"delete m1"}, nil},
		"one that is gone":       {pool.Step{Action: pool.ActionUpgrade, Name: "m9"}, nil, nil},
		"nothing here":           {pool.Step{Action: pool.ActionCreate, Name: "m1"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(*infrav1.HostMachine) {}, func(*infrav1.HostMachine) {})
			d.scope.pool.Spec.Spread = &infrav1.HostMachinePoolSpread{Key: "rack", Hard: &hard}
			other := d.stored(t, "m0")
			if err := d.do(t.Context(), d.scope, c.step); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(d.writes, c.writes) || d.stored(t, "m0").ResourceVersion != other.ResourceVersion {
				t.Errorf("writes %q, want %q", d.writes, c.writes)
			}
			if c.check != nil && !c.check(d.stored(t, "m1")) {
				t.Errorf("%+v", d.stored(t, "m1").Spec)
			}
			d.refuse = errors.New("no")
			if err := d.do(t.Context(), d.scope, c.step); (err != nil) != (len(c.writes) > 0) || err != nil && !strings.Contains(err.Error(), "m1") {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// TestCreatedMembersAreKnown: those that could be made are of the pool at once, also when another could not.
func TestCreatedMembersAreKnown(t *testing.T) {
	d := newDesk(t)
	steps := []pool.Step{{Action: pool.ActionCreate, Reason: "a"}, {Action: pool.ActionCreate, Replaces: "m0", Domain: "x"}}
	if err := d.create(t.Context(), d.scope, steps); err != nil || len(d.writes) != 2 || len(d.scope.hostMachines) != 2 {
		t.Fatalf("%v: %q, members %d", err, d.writes, len(d.scope.hostMachines))
	}
	for i := range d.scope.hostMachines {
		m := &d.scope.hostMachines[i]
		if want := []string{"", "m0"}[i]; m.Annotations[infrav1.ReplacesAnnotation] != want || (m.Annotations == nil) != (want == "") || m.Spec.Spread != nil || m.Spec.ClaimID == "" || d.stored(t, m.Name).UID != m.UID {
			t.Errorf("%d: %+v", i, m)
		}
	}
	d.scope.pool.Spec.Spread = &infrav1.HostMachinePoolSpread{Key: "rack"}
	if m := newHostMachine(d.scope, steps[0]); m.Spec.Spread != nil || !maps.Equal(m.Labels, map[string]string{
		infrav1.RevisionLabel: revision, clusterv1.ClusterNameLabel: "c", clusterv1.MachinePoolNameLabel: "workers",
	}) {
		t.Errorf("%+v", m)
	}
	d.scope.pool.Labels = map[string]string{clusterv1.WatchLabel: "a"}
	d.scope.pool.Spec.HostSelector, d.scope.pool.Spec.ResetPolicy = onRack.HostSelector, infrav1.ResetPolicyManual
	m := newHostMachine(d.scope, steps[1])
	if owner := (metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "HostMachinePool", Name: "workers", UID: "uid"}); !slices.Contains(m.OwnerReferences, owner) {
		t.Errorf("owners %+v", m.OwnerReferences)
	}
	if m.Spec.HostSelector != onRack.HostSelector || m.Spec.ResetPolicy != infrav1.ResetPolicyManual {
		t.Errorf("%+v", m.Spec)
	}
	want := map[string]string{infrav1.RevisionLabel: revision, clusterv1.WatchLabel: "a"}
	maps.Copy(want, d.scope.memberLabels())
	if !maps.Equal(m.Labels, want) || m.Spec.Spread == nil || m.Spec.Spread.Value != "x" || m.Spec.Version != "v1.36.3" || len(m.OwnerReferences) != 1 || len(m.Finalizers) != 1 {
		t.Errorf("%+v", m)
	}
	d.refuse = errors.New("no")
	if err := d.create(t.Context(), d.scope, steps); err == nil || len(d.scope.hostMachines) != 2 {
		t.Errorf("%v, members %d", err, len(d.scope.hostMachines))
	}
}

// TestStepsAreReported: one event for each kind of step, with the first reason.
func TestStepsAreReported(t *testing.T) {
	d := newDesk(t)
	d.scope.plan.Steps = []pool.Step{
		{Action: pool.ActionCreate, Reason: "two more"}, {Action: pool.ActionCreate, Reason: "again"}, {Action: pool.ActionDeleteMachine, Reason: "old"},
		{Action: pool.ActionDeleteHostMachine, Reason: "lost"}, {Action: pool.ActionUpgrade, Reason: "newer"}, {Action: pool.ActionMove, Reason: "silent"},
	}
	d.reportSteps(d.scope)
	got := d.reported()
	want := []string{
		"Normal ScaledUp Adding 2 machines: two more", "Normal ScaledDown Removing 1 machine: old", "Normal ScaledDown Removing 1 machine: lost",
		"Normal UpgradingInPlace Upgrading in place 1 machine: newer",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	d.scope.plan.Steps = d.scope.plan.Steps[5:]
	d.reportSteps(d.scope)
	if got := d.reported(); len(got) != 0 {
		t.Errorf("of a plan with nothing to report: %q", got)
	}
}

// reported returns the events since the last call.
func (d *desk) reported() (all []string) {
	for len(d.events.Events) > 0 {
		all = append(all, <-d.events.Events)
	}
	return all
}

// TestPlansAreMadeOfWhatIsSeen: what a plan sees of the pool.
func TestPlansAreMadeOfWhatIsSeen(t *testing.T) {
	hard, replicas := true, int32(3)
	d := newDesk(t, func(*infrav1.HostMachine) {})
	s := d.scope
	s.machinePool.Spec.Replicas = &replicas
	s.outOfDate, s.stalled, s.frozen = "soon", true, "goes"
	s.hosts = &hostView{free: 7, domains: []pool.Domain{{Name: "x"}}}
	s.pool.Spec.Spread = &infrav1.HostMachinePoolSpread{Key: "rack", Hard: &hard}
	seen, err := s.observe()
	if err != nil {
		t.Fatal(err)
	}
	if seen.Desired != 3 || seen.Version != "v1.36.3" || seen.Revision != revision || seen.Hold != "soon" || seen.External || seen.Deleting || seen.Frozen != "goes" || !seen.Stalled ||
		len(seen.Members) != 1 || seen.FreeHosts != 7 || len(seen.Domains) != 1 || !seen.HardSpread {
		t.Errorf("%+v", seen)
	}
	s.machinePool.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	s.pool.Spec.Spread, s.hosts = &infrav1.HostMachinePoolSpread{Key: "rack"}, nil
	if seen, err = s.observe(); err != nil || !seen.Deleting || seen.Desired != 0 || seen.HardSpread || seen.FreeHosts != 0 {
		t.Errorf("of a MachinePool that goes: %+v, %v", seen, err)
	}
	s.machinePool.DeletionTimestamp, s.pool.DeletionTimestamp = nil, s.machinePool.DeletionTimestamp
	s.pool.Spec.Spread = nil
	if seen, err = s.observe(); err != nil || !seen.Deleting || seen.Desired != 0 || seen.HardSpread {
		t.Errorf("of a pool that goes: %+v, %v", seen, err)
	}
	s.pool.DeletionTimestamp, s.pool.Status.Ready = nil, true
	s.machinePool.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "autoscaler"}
	s.pool.Spec.Strategy = infrav1.HostMachinePoolStrategy{Type: infrav1.RolloutTypeOnDelete}
	want, err := pool.NewStrategy(s.pool.Spec.Strategy, 3)
	if seen, again := s.observe(); err != nil || again != nil || !seen.External || seen.Strategy != want {
		t.Errorf("of a pool whose replicas others manage: %+v, %v, %v", seen, err, again)
	}
}
