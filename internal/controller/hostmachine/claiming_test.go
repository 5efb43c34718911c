package hostmachine

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	"github.com/slipway-dev/slipway/internal/placement"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/registry"
)

var errBroken = errors.New("broken")

// claiming is a machine that is about to claim one of the hosts of an API server. The cache may show
// other hosts; what it shows by the claimID may differ, too, since that is another index.
type claiming struct {
	*Reconciler
	*scope
	t     *testing.T
	store client.WithWatch
	// cached and ofClaim are what the cache shows instead of the store, unless they are nil.
	cached, ofClaim []infrav1.Host
	// fails is the error of each call of that name, such as "live get", "list", "update" or "patch".
	fails map[string]error
	// calls counts them.
	calls map[string]int
}

func newClaiming(t *testing.T, hosts ...*infrav1.Host) *claiming {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}}
	m.Spec.ClaimID = "claim"
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c1"}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithIndex(&infrav1.Host{}, infrav1.HostClaimIDField, func(o client.Object) []string {
		if claim := o.(*infrav1.Host).Spec.Claim; claim != nil {
			return []string{claim.ClaimID}
		}
		return nil
	})
	for _, h := range hosts {
		builder.WithObjects(h)
	}
	c := &claiming{t: t, store: builder.Build(), fails: map[string]error{}, calls: map[string]int{}}
	called := func(what string) error {
		c.calls[what]++
		return c.fails[what]
	}
	c.Reconciler = &Reconciler{
		Recorder: &events.FakeRecorder{}, Clock: clocktesting.NewFakeClock(time.Now()),
		Client: interceptor.NewClient(c.store, interceptor.Funcs{
			List: func(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				hosts, ok := list.(*infrav1.HostList)
				if !ok {
					if err := called("list of others"); err != nil {
						return err
					}
					return store.List(ctx, list, options...)
				}
				what, shown := "list", c.cached
				if (&client.ListOptions{}).ApplyOptions(options).FieldSelector != nil {
					what, shown = "list of the claim", c.ofClaim
				}
				if err := called(what); err != nil || shown != nil {
					hosts.Items = shown
					return err
				}
				return store.List(ctx, list, options...)
			},
			Update: func(ctx context.Context, store client.WithWatch, o client.Object, options ...client.UpdateOption) error {
				if err := called("update"); err != nil {
					return err
				}
				return store.Update(ctx, o, options...)
			},
			Patch: func(ctx context.Context, store client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := called("patch"); err != nil {
					return err
				}
				return store.Patch(ctx, o, patch, options...)
			},
		}),
		APIReader: interceptor.NewClient(c.store, interceptor.Funcs{
			List: func(ctx context.Context, store client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if err := called("live list"); err != nil {
					return err
				}
				return store.List(ctx, list, options...)
			},
			Get: func(ctx context.Context, store client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if err := called("live get"); err != nil {
					return err
				}
				return store.Get(ctx, key, o, options...)
			},
		}),
	}
	if err := c.store.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	c.scope = newScope(c.Client, m, cluster)
	c.owner, c.wrote = &placement.Owner{Description: "Machine m1"}, func(client.Object, client.Object) {}
	return c
}

// aHost is one that any machine may claim.
func aHost(name string, change ...func(*infrav1.Host)) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "1"}}
	h.Spec.HostID = "key-of-" + name
	h.Status.BootID, h.Status.CleanProof = "boot", &infrav1.CleanProof{}
	h.Status.Inventory.Architecture, h.Status.Inventory.MachineID = "amd64", "machine-"+name
	h.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	h.Status.Conditions = []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
	for _, c := range change {
		c(h)
	}
	return h
}

// by lets a claim have the host.
func by(claimID string) func(*infrav1.Host) {
	return func(h *infrav1.Host) {
		h.Spec.Claim, h.Spec.ClaimGeneration = &infrav1.HostClaim{ClusterName: "c1", MachineName: "m", ClaimID: claimID}, 1
	}
}

func givenUp(h *infrav1.Host) { host.RequestReset(h, "") }

func shows(hosts ...*infrav1.Host) []infrav1.Host {
	list := []infrav1.Host{}
	for _, h := range hosts {
		list = append(list, *h)
	}
	return list
}

// carriers are the names of the hosts that carry the machine's claim.
func (c *claiming) carriers() string {
	c.t.Helper()
	list := &infrav1.HostList{}
	if err := c.store.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		if claim := list.Items[i].Spec.Claim; claim != nil && claim.ClaimID == "claim" {
			names = append(names, list.Items[i].Name)
		}
	}
	return strings.Join(names, " ")
}

func (c *claiming) stored() *infrav1.HostMachine {
	c.t.Helper()
	m := &infrav1.HostMachine{}
	if err := c.store.Get(c.t.Context(), client.ObjectKeyFromObject(c.hostMachine), m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

// The claimID is written once, before any host, and only then no host can carry it yet.
func TestIntentIsRecordedOnce(t *testing.T) {
	c := newClaiming(t)
	if proceed, err := c.recordIntent(t.Context(), c.scope); err != nil || !proceed || c.newIntent || c.calls["patch"] > 0 || c.hostMachine.Spec.ClaimID != "claim" {
		t.Errorf("with a claimID: %t, %v, new %t, claim %s", proceed, err, c.newIntent, c.hostMachine.Spec.ClaimID)
	}
	c.hostMachine.Spec.ClaimID = ""
	c.fails["patch"] = errBroken
	if proceed, err := c.recordIntent(t.Context(), c.scope); err == nil || proceed || c.newIntent || c.hostMachine.Spec.ClaimID != "" {
		t.Errorf("not written: %t, %v, new %t, claim %q", proceed, err, c.newIntent, c.hostMachine.Spec.ClaimID)
	}
	c = newClaiming(t)
	c.hostMachine.Spec.ClaimID = ""
	if proceed, err := c.recordIntent(t.Context(), c.scope); err != nil || !proceed || !c.newIntent || c.stored().Spec.ClaimID == "claim" || c.stored().Spec.ClaimID != c.hostMachine.Spec.ClaimID {
		t.Errorf("written: %t, %v, new %t, claim %q, stored %q", proceed, err, c.newIntent, c.hostMachine.Spec.ClaimID, c.stored().Spec.ClaimID)
	}
}

// The claim is the whole change to the host, whatever its last claim was.
func TestWriteClaim(t *testing.T) {
	adopt := func(c *claiming) { c.hostMachine.Spec.Adopt.HostName = "h" }
	plane := func(c *claiming) { c.owner.ControlPlane = true }
	nobody := func(c *claiming) { c.owner = nil }
	for name, tc := range map[string]struct {
		change              func(*claiming)
		adopt, controlPlane *bool
	}{
		"a worker":            {},
		"a control plane":     {change: plane, controlPlane: ptr.To(true)},
		"a node":              {change: adopt, adopt: ptr.To(true)},
		"nobody's":            {change: nobody},
		"a node of nobody's":  {change: func(c *claiming) { adopt(c); nobody(c) }, adopt: ptr.To(true)},
		"a node of the plane": {change: func(c *claiming) { adopt(c); plane(c) }, adopt: ptr.To(true), controlPlane: ptr.To(true)},
	} {
		c := newClaiming(t)
		if tc.change != nil {
			tc.change(c)
		}
		h := aHost("h", func(h *infrav1.Host) {
			h.Spec.ClaimGeneration, h.Spec.ClearedGeneration, h.Spec.Unschedulable = 4, ptr.To[int64](4), ptr.To(false)
			h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredReset}
		})
		want := h.DeepCopy()
		want.Spec.Claim = &infrav1.HostClaim{MachineName: "m1", ClusterName: "c1", ClaimID: "claim", Adopt: tc.adopt, ControlPlane: tc.controlPlane}
		want.Spec.ClaimGeneration, want.Spec.Desired = 5, nil
		host.BlockMove(want, true)
		writeClaim(h, c.scope)
		if !reflect.DeepEqual(h.Spec, want.Spec) || !reflect.DeepEqual(h.Annotations, want.Annotations) || len(h.Annotations) != 1 || !controllerutil.ContainsFinalizer(h, infrav1.HostFinalizer) {
			t.Errorf("%s: %+v, annotations %v, finalizers %v", name, h.Spec, h.Annotations, h.Finalizers)
		}
	}
}

// A machine has one host for its claim, whatever the cache shows and wherever an earlier attempt ended.
func TestOneHostForAClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts []*infrav1.Host
		// change is made before.
		change func(*claiming)
		// want is the host that the machine gets, carriers all that carry its claim afterwards.
		want, carriers string
		waiting        string
		fails          bool
		lists, gets    int
	}{
		"a free host":                    {hosts: []*infrav1.Host{aHost("a")}, want: "a", carriers: "a", lists: 1, gets: 1},
		"a free host for a new intent":   {hosts: []*infrav1.Host{aHost("a")}, change: func(c *claiming) { c.newIntent = true }, want: "a", carriers: "a", gets: 1},
		"no host":                        {waiting: infrav1.HostMachineNoHostFitsReason},
		"no free host":                   {hosts: []*infrav1.Host{aHost("a", by("other"))}, waiting: infrav1.HostMachineNoHostFitsReason},
		"the host of an earlier attempt": {hosts: []*infrav1.Host{aHost("a"), aHost("b", by("claim"))}, want: "b", carriers: "b", lists: 1},
		"two hosts of two managers":      {hosts: []*infrav1.Host{aHost("b", by("claim")), aHost("c", by("claim"))}, want: "b", carriers: "b c", lists: 1},
		"one of them is given up":        {hosts: []*infrav1.Host{aHost("b", by("claim"), givenUp), aHost("c", by("claim"))}, want: "c", carriers: "b c", lists: 1},
		"both are given up":              {hosts: []*infrav1.Host{aHost("a"), aHost("b", by("claim"), givenUp)}, want: "a", carriers: "a b", lists: 2, gets: 1},
		"given up, which the cache does not show": {
			hosts:  []*infrav1.Host{aHost("a"), aHost("b", by("claim"), givenUp)},
			change: func(c *claiming) { c.ofClaim = shows(aHost("b", by("claim"))) }, want: "a", carriers: "a b", lists: 2, gets: 1,
		},
		"claimed, which the cache does not show": {
			hosts:  []*infrav1.Host{aHost("a"), aHost("b", by("claim"))},
			change: func(c *claiming) { c.cached, c.ofClaim = shows(aHost("a"), aHost("b")), shows() }, want: "b", carriers: "b", lists: 1, gets: 1,
		},
		"released, which the cache does not show": {
			hosts:  []*infrav1.Host{aHost("a")},
			change: func(c *claiming) { c.ofClaim = shows(aHost("b", by("claim"))) }, want: "a", carriers: "a", lists: 2, gets: 1,
		},
		"claimed by another, which the cache does not show": {
			hosts:  []*infrav1.Host{aHost("a", by("other"))},
			change: func(c *claiming) { c.cached = shows(aHost("a")) }, waiting: infrav1.HostMachineNoHostFitsReason, gets: 1,
		},
		"a node of a control plane": {
			hosts:  []*infrav1.Host{aHost("a")},
			change: func(c *claiming) { c.hostMachine.Spec.Adopt.HostName, c.owner.ControlPlane = "a", true }, waiting: infrav1.HostMachineWorkersOnlyReason,
		},
		"the cache does not answer":          {hosts: []*infrav1.Host{aHost("a")}, change: func(c *claiming) { c.fails["list"] = errBroken }, fails: true},
		"the cache does not answer by claim": {hosts: []*infrav1.Host{aHost("a")}, change: func(c *claiming) { c.fails["list of the claim"] = errBroken }, fails: true},
		"no live read of the claim":          {hosts: []*infrav1.Host{aHost("b", by("claim"))}, change: func(c *claiming) { c.fails["live list"] = errBroken }, carriers: "b", fails: true, lists: 1},
		"no live read before the claim":      {hosts: []*infrav1.Host{aHost("a")}, change: func(c *claiming) { c.fails["live list"] = errBroken }, fails: true, lists: 1, gets: 1},
		"no live read of the host":           {hosts: []*infrav1.Host{aHost("a")}, change: func(c *claiming) { c.fails["live get"] = errBroken }, fails: true, gets: 1},
		"the claim is not written":           {hosts: []*infrav1.Host{aHost("a"), aHost("b")}, change: func(c *claiming) { c.fails["update"] = errBroken }, fails: true, lists: 1, gets: 1},
		"the providerID is not written":      {hosts: []*infrav1.Host{aHost("a")}, change: func(c *claiming) { c.fails["patch"] = errBroken }, carriers: "a", fails: true, lists: 1, gets: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaiming(t, tc.hosts...)
			if tc.change != nil {
				tc.change(c)
			}
			proceed, err := c.claimHost(t.Context(), c.scope)
			if proceed != (tc.want != "") || (err != nil) != tc.fails || c.hostless != (tc.want == "" && !tc.fails) {
				t.Fatalf("proceed %t, error %v, hostless %t", proceed, err, c.hostless)
			}
			providerID := ""
			if tc.want != "" {
				providerID = infrav1.ProviderID("ns", tc.want, "claim")
				if c.claimed == nil || c.claimed.Name != tc.want {
					t.Errorf("claimed %v, want %s", c.claimed, tc.want)
				}
			}
			if got := c.stored().Spec.ProviderID; got != providerID || c.hostMachine.Spec.ProviderID != providerID {
				t.Errorf("providerID %q, stored %q, want %q", c.hostMachine.Spec.ProviderID, got, providerID)
			}
			if got := c.carriers(); got != tc.carriers {
				t.Errorf("hosts %q carry the claim, want %q", got, tc.carriers)
			}
			if (c.scope.waiting == nil) != (tc.waiting == "") || c.scope.waiting != nil && c.scope.waiting.reason != tc.waiting {
				t.Errorf("waiting %+v, want %s", c.scope.waiting, tc.waiting)
			}
			if c.calls["live list"] != tc.lists || c.calls["live get"] != tc.gets {
				t.Errorf("%d live lists and %d live gets, want %d and %d", c.calls["live list"], c.calls["live get"], tc.lists, tc.gets)
			}
			// A machine that has its providerID keeps it, without any read.
			if tc.want != "" {
				c.calls = map[string]int{}
				if proceed, err := c.claimHost(t.Context(), c.scope); err != nil || !proceed || len(c.calls) > 0 {
					t.Errorf("again: %t, %v, calls %v", proceed, err, c.calls)
				}
			}
		})
	}
}

// A host that is not claimed after all is free for other machines immediately; one that is claimed is not, and the
// machine says of each host why it has none.
func TestReservedHosts(t *testing.T) {
	a, b := aHost("a"), aHost("b")
	for name, tc := range map[string]struct {
		hosts  []*infrav1.Host
		change func(*claiming)
		want   string
		// kept are the hosts that stay reserved, rejected the reasons.
		kept, rejected string
		held           bool
		fails          error
		conflicts      float64
	}{
		"the first":                      {hosts: []*infrav1.Host{a, b}, want: "a", kept: "a"},
		"the first is reserved":          {hosts: []*infrav1.Host{a, b}, change: func(c *claiming) { c.reservations.begin(freeHostOf(a), c.Clock.Now()) }, want: "b", kept: "ab"},
		"both are reserved":              {hosts: []*infrav1.Host{a}, change: func(c *claiming) { c.reservations.begin(freeHostOf(a), c.Clock.Now()); c.cached = shows(a) }, kept: "a", rejected: "a: claimed"},
		"the first is gone":              {hosts: []*infrav1.Host{b}, want: "b", kept: "b"},
		"all are gone":                   {rejected: "a: being deleted, b: being deleted"},
		"the first is another's":         {hosts: []*infrav1.Host{aHost("a", by("other")), b}, want: "b", kept: "b"},
		"the first is away":              {hosts: []*infrav1.Host{aHost("a", func(h *infrav1.Host) { h.Status.Conditions = nil }), b}, want: "b", kept: "b"},
		"all are away":                   {hosts: []*infrav1.Host{aHost("a", func(h *infrav1.Host) { h.Status.Conditions = nil })}, rejected: "a: agent not connected, b: being deleted"},
		"an earlier attempt has another": {hosts: []*infrav1.Host{a, aHost("z", by("claim"))}, want: "z"},
		"lost to another":                {hosts: []*infrav1.Host{a, b}, change: func(c *claiming) { c.fails["update"] = apierrors.NewConflict(schema.GroupResource{}, "a", errBroken) }, fails: errBroken, conflicts: 1},
		"not written":                    {hosts: []*infrav1.Host{a, b}, change: func(c *claiming) { c.fails["update"] = errBroken }, fails: errBroken},
		"not read":                       {hosts: []*infrav1.Host{a, b}, change: func(c *claiming) { c.fails["live get"] = errBroken }, fails: errBroken},
		"a hook holds it back":           {hosts: []*infrav1.Host{a, b}, change: (*claiming).holdBack, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaiming(t, tc.hosts...)
			c.cached = shows(a, b)
			if tc.change != nil {
				tc.change(c)
			}
			request, err := placement.RequestFor(t.Context(), c.Client, c.hostMachine, c.owner, c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			ranking := rankingOf(t, request, c.cached)
			before := testutil.ToFloat64(claimConflicts)
			got := c.takeOf(t.Context(), c.scope, request, ranking)
			if (got.host == nil) != (tc.want == "") || got.host != nil && got.host.Name != tc.want || got.held != tc.held || (got.err != nil) != (tc.fails != nil) {
				t.Errorf("host %v, held %t, error %v", got.host, got.held, got.err)
			}
			if got.ended() != (tc.want != "" || tc.held || tc.fails != nil) {
				t.Errorf("ended %t", got.ended())
			}
			var rejected []string
			for _, r := range got.rejected {
				rejected = append(rejected, r.Host.Name+": "+r.Reason)
			}
			if text := strings.Join(rejected, ", "); text != tc.rejected {
				t.Errorf("rejected %q, want %q", text, tc.rejected)
			}
			kept := ""
			for _, h := range []*infrav1.Host{a, b} {
				if !c.reservations.begin(freeHostOf(h), c.Clock.Now()) {
					kept += h.Name
				}
			}
			if kept != tc.kept {
				t.Errorf("reserved %q, want %q", kept, tc.kept)
			}
			if conflicts := testutil.ToFloat64(claimConflicts) - before; conflicts != tc.conflicts {
				t.Errorf("%v conflicts, want %v", conflicts, tc.conflicts)
			}
		})
	}
}

// rankingOf ranks hosts by name.
func rankingOf(t *testing.T, request placement.Request, hosts []infrav1.Host) ranking {
	t.Helper()
	requirements, err := placement.Parse(request)
	if err != nil {
		t.Fatal(err)
	}
	of := ranking{query: query{placement.Of(), requirements}}
	for i := range hosts {
		of.hosts = append(of.hosts, placement.Verdict{Host: &hosts[i]})
	}
	return of
}

// holdBack lets an extension that is not known yet block every claim.
func (c *claiming) holdBack() {
	catalog, err := hosthooks.Catalog()
	if err != nil {
		c.t.Fatal(err)
	}
	hooks, err := sdkclient.New(sdkclient.Options{Catalog: catalog, Registry: registry.New(registry.Options{})})
	if err != nil {
		c.t.Fatal(err)
	}
	c.Hooks = &hosthooks.Hooks{Client: hooks}
}

// Machines with equal requests share a ranking for a moment; once none of its hosts is free, hosts
// are ranked anew. A machine without a host polls when the last reservation has ended.
func TestRankingIsShared(t *testing.T) {
	c := newClaiming(t, aHost("a"))
	take := func(want string, lists int) {
		t.Helper()
		h, err := c.takeHost(t.Context(), c.scope)
		if err != nil || (h == nil) != (want == "") || h != nil && h.Name != want || c.calls["list"] != lists {
			t.Fatalf("took %v, error %v, after %d lists; want %q after %d", h, err, c.calls["list"], want, lists)
		}
	}
	c.newIntent = true
	take("a", 1)
	if c.scope.waiting != nil || c.requeueAfter != 0 {
		t.Errorf("with a host: waiting %+v, again after %s", c.scope.waiting, c.requeueAfter)
	}
	c.hostMachine.Spec.ClaimID = "another"
	take("", 2)
	if c.scope.waiting.reason != infrav1.HostMachineNoHostFitsReason || !strings.Contains(c.scope.waiting.message, "a") || c.requeueAfter != reservationTime {
		t.Errorf("without one: waiting %+v, again after %s", c.scope.waiting, c.requeueAfter)
	}
	c = newClaiming(t, aHost("a"))
	c.cached = shows(aHost("a"))
	c.reservations.begin(freeHostOf(&c.cached[0]), c.Clock.Now())
	take("", 1)
	if !strings.Contains(c.scope.waiting.message, "1 claimed (a)") {
		t.Errorf("with a host that is reserved: waiting %+v", c.scope.waiting)
	}

	c = newClaiming(t, aHost("a"), aHost("b"))
	c.newIntent = true
	first, err := c.takeHost(t.Context(), c.scope)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.takeHost(t.Context(), c.scope)
	if err != nil || second == nil || second.Name == first.Name || c.calls["list"] != 1 {
		t.Errorf("the second machine took %v after %d lists, error %v", second, c.calls["list"], err)
	}
	c.holdBack()
	if err := c.store.Create(t.Context(), aHost("c", func(h *infrav1.Host) { h.ResourceVersion = "" })); err != nil {
		t.Fatal(err)
	}
	c.Clock.(*clocktesting.FakeClock).Step(2 * rankingTime)
	if h, err := c.takeHost(t.Context(), c.scope); h != nil || err != nil || c.scope.waiting == nil || c.scope.waiting.reason != infrav1.HostMachineWaitingForHookReason {
		t.Errorf("held back: took %v, error %v, waiting %+v", h, err, c.scope.waiting)
	}
	lists := c.calls["list"]
	if h, err := c.takeHost(t.Context(), c.scope); h != nil || err != nil || c.calls["list"] != lists || c.scope.waiting.reason != infrav1.HostMachineWaitingForHookReason {
		t.Errorf("held back again: took %v, error %v, %d lists, waiting %+v", h, err, c.calls["list"]-lists, c.scope.waiting)
	}
}

// controlPlaneWaits makes a machine of the control plane of the Cluster that waits for a host.
func (c *claiming) controlPlaneWaits() {
	c.t.Helper()
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plane", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"}}}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plane", Labels: map[string]string{clusterv1.ClusterNameLabel: "c1", clusterv1.MachineControlPlaneLabel: ""}}}
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "HostMachine", Name: m.Name}
	for _, o := range []client.Object{m, machine} {
		if err := c.store.Create(c.t.Context(), o); err != nil {
			c.t.Fatal(err)
		}
	}
}

// A worker claims one of the hosts that its control plane can spare, and says why not otherwise. Where none
// fits it does not read what the control plane lacks.
func TestSpareHosts(t *testing.T) {
	a, b, d := aHost("a"), aHost("b"), aHost("d")
	away := func(h *infrav1.Host) { h.Status.Conditions = nil }
	for name, tc := range map[string]struct {
		hosts []*infrav1.Host
		// change is made after the ranking.
		change func(*claiming)
		// has is how many hosts the machine has, and free how many may be reserved afterwards.
		has, free     int
		held, refused bool
		// gets are the hosts that are read live.
		gets int
	}{
		"one":                         {hosts: []*infrav1.Host{a, b, d}, has: 1, free: 2, gets: 1},
		"the best is away":            {hosts: []*infrav1.Host{a, b, aHost("d", away)}, has: 1, free: 2, gets: 2},
		"none":                        {hosts: []*infrav1.Host{a}, change: func(c *claiming) { c.cached = shows(a) }, held: true, free: 3},
		"none but those that are not": {hosts: []*infrav1.Host{aHost("a", away), aHost("b", away), aHost("d", away)}, held: true, free: 3, gets: 2},
		"not claimed":                 {hosts: []*infrav1.Host{a, b, d}, change: func(c *claiming) { c.fails["update"] = errBroken }, refused: true, free: 3, gets: 1},
		"hosts are not read":          {hosts: []*infrav1.Host{a, b, d}, change: func(c *claiming) { c.fails["list"] = errBroken }, refused: true, free: 3},
		"machines are not read":       {hosts: []*infrav1.Host{a, b, d}, change: func(c *claiming) { c.fails["list of others"] = errBroken }, refused: true, free: 3},
		"no host fits":                {change: func(c *claiming) { c.cached = shows() }, free: 3},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaiming(t, tc.hosts...)
			c.controlPlaneWaits()
			c.cached = shows(a, b, d)
			if tc.change != nil {
				tc.change(c)
			}
			request, err := placement.RequestFor(t.Context(), c.Client, c.hostMachine, c.owner, c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			got := c.takeOf(t.Context(), c.scope, request, rankingOf(t, request, c.cached))
			if (got.host != nil) != (tc.has > 0) || got.held != tc.held || (got.err != nil) != tc.refused || tc.held != (c.scope.waiting != nil) {
				t.Errorf("host %v, held %t, error %v, waiting %+v", got.host, got.held, got.err, c.scope.waiting)
			}
			if c.calls["live get"] != tc.gets || (c.calls["list of others"] > 0) == (len(c.cached) == 0) {
				t.Errorf("calls %v, want %d live gets", c.calls, tc.gets)
			}
			free := 0
			for _, h := range []*infrav1.Host{a, b, d} {
				if c.reservations.begin(freeHostOf(h), c.Clock.Now()) {
					free++
				}
			}
			if free != tc.free || len(c.carriers()) != tc.has {
				t.Errorf("%d hosts are free, want %d; %q carry the claim", free, tc.free, c.carriers())
			}
		})
	}
}

// What made the Machine is read live before the intent; a claim that follows at once does not read it
// again, and one that waited for a host does.
func TestMakerIsReadOnce(t *testing.T) {
	for _, tc := range []struct {
		newIntent, leaves bool
		gets              int
	}{{newIntent: true}, {gets: 1}, {leaves: true, gets: 1}} {
		c := newClaiming(t, aHost("a"))
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: "set", Finalizers: []string{"slipway.dev/test"}}}
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m1", UID: "m1"}}
		machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet"))}
		c.hostMachine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))}
		for _, o := range []client.Object{set, machine} {
			if err := c.store.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if tc.leaves {
			if err := c.store.Delete(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if c.owner, err = placement.OwnerOf(t.Context(), c.store, c.hostMachine); err != nil || c.owner == nil {
			t.Fatalf("owner %v, error %v", c.owner, err)
		}
		c.newIntent = tc.newIntent
		h, err := c.take(t.Context(), c.scope, aHost("a"))
		if err != nil || (h == nil) != tc.leaves || c.calls["live get"] != tc.gets || (c.scope.waiting != nil) != tc.leaves {
			t.Errorf("%+v: took %v, error %v, calls %v, waiting %+v", tc, h, err, c.calls, c.scope.waiting)
		}
	}
}
