package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

// rebootWorld is a cluster whose hosts take ten seconds for a reboot.
type rebootWorld struct {
	t *testing.T
	client.WithWatch
	// fails are hosts that do not come back, order the hosts in the order in which they went down.
	fails map[string]bool
	order []string
	// most is how many hosts were away at the same time, of which controlPlanes of a control plane.
	most, mostControlPlanes int
	mixed                   bool
}

// member is "pool/domain/host", where pool is "cp" for a control plane.
func newRebootWorld(t *testing.T, members ...string) *rebootWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &rebootWorld{t: t, fails: map[string]bool{}, WithWatch: fake.NewClientBuilder().WithScheme(scheme).Build()}
	w.create(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}})
	for _, member := range members {
		part := strings.Split(member, "/")
		labels := map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachinePoolNameLabel: part[0]}
		if part[0] == "cp" {
			labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineControlPlaneLabel: ""}
		}
		name := part[2]
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m-" + name, Labels: labels}}
		m.Spec.InfrastructureRef.Name = "i-" + name
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
		i := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i-" + name, Labels: labels}}
		i.Spec.ClaimID, i.Status.FailureDomain = "claim-"+name, part[1]
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		h.Spec.Claim = &infrav1.HostClaim{ClaimID: i.Spec.ClaimID, ClusterName: "c", MachineName: i.Name, ControlPlane: ptr.To(part[0] == "cp")}
		h.Spec.Desired = &infrav1.HostDesired{Phase: infrav1.HostDesiredBootstrapped, OperationID: "bootstrap", Bootstrapped: ptr.To(true)}
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "bootstrap", ClaimID: i.Spec.ClaimID, Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationSucceeded}
		meta.SetStatusCondition(&h.Status.Conditions, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostHeartbeatFreshReason})
		w.create(m, i, h)
	}
	return w
}

func (w *rebootWorld) create(all ...client.Object) {
	w.t.Helper()
	for _, o := range all {
		if err := w.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// serve is manager and agents: they have hosts reboot, and look how many are away.
func (w *rebootWorld) serve(ctx context.Context) {
	down := map[string]time.Time{}
	for ctx.Err() == nil {
		machines := &infrav1.HostMachineList{}
		if err := w.List(ctx, machines); err != nil {
			return
		}
		for i := range machines.Items {
			w.step(ctx, &machines.Items[i], down)
		}
		w.observe(ctx, down)
		time.Sleep(time.Second)
	}
}

func (w *rebootWorld) step(ctx context.Context, m *infrav1.HostMachine, down map[string]time.Time) {
	name := strings.TrimPrefix(m.Name, "i-")
	h := &infrav1.Host{}
	if w.Get(ctx, client.ObjectKey{Namespace: "n", Name: name}, h) != nil {
		return
	}
	since, away := down[name]
	switch {
	case hosts.RequestReboot(h, ptr.Deref(m.Spec.Reboots, 0), m.Spec.RebootPolicy):
		if h.Spec.Desired.RebootPolicy != infrav1.RebootDrain {
			w.t.Errorf("%s is not drained", name)
		}
		down[name], w.order = time.Now(), append(w.order, name)
		_ = w.Update(ctx, h)
	case away && time.Since(since) >= 10*time.Second:
		delete(down, name)
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: h.Spec.Desired.OperationID, ClaimID: m.Spec.ClaimID, Phase: infrav1.HostDesiredRebooted, State: infrav1.OperationSucceeded}
		h.Status.RebootRequired = nil
		if w.fails[name] {
			h.Status.ObservedOperation.State, h.Status.ObservedOperation.Message = infrav1.OperationFailed, "its Node is not ready"
		}
		_ = w.Update(ctx, h)
	}
}

func (w *rebootWorld) observe(ctx context.Context, down map[string]time.Time) {
	domains, controlPlanes := map[string]bool{}, 0
	for name := range down {
		m := &infrav1.HostMachine{}
		_ = w.Get(ctx, client.ObjectKey{Namespace: "n", Name: "i-" + name}, m)
		domains[m.Status.FailureDomain] = true
		if _, is := m.Labels[clusterv1.MachineControlPlaneLabel]; is {
			controlPlanes++
		}
	}
	w.most, w.mostControlPlanes = max(w.most, len(down)), max(w.mostControlPlanes, controlPlanes)
	w.mixed = w.mixed || len(domains) > 1 || controlPlanes > 0 && len(down) > controlPlanes
}

// command runs one `cluster reboot`.
func (w *rebootWorld) command(ctx context.Context, args ...string) (rebootRound, error) {
	f := &rebootFlags{managementFlags: managementFlags{program: &Program{}}}
	command := clusterRebootCommand(&Program{})
	command.SetContext(ctx)
	out := &bytes.Buffer{}
	command.SetOut(out)
	command.SetErr(&bytes.Buffer{})
	if err := command.ParseFlags(args); err != nil {
		w.t.Fatal(err)
	}
	flag := func(name string) string { return command.Flags().Lookup(name).Value.String() }
	f.round.Pool, f.round.IfNeeded, f.dryRun, f.output = flag("pool"), flag("if-needed") == "true", flag("dry-run") == "true", outputJSON
	_, _ = fmt.Sscan(flag("max-unavailable"), &f.round.MaxUnavailable)
	f.timeout = 10 * time.Minute
	err := f.run(command, &session{WithWatch: w, namespace: "n"}, "c")
	shown := rebootRound{}
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &shown); err != nil {
			w.t.Error(err)
		}
	}
	return shown, err
}

func (w *rebootWorld) round() string {
	c := &clusterv1.Cluster{}
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "n", Name: "c"}, c); err != nil {
		w.t.Error(err)
	}
	return c.Annotations[infrav1.RebootRoundAnnotation]
}

var twoRacks = []string{"cp/a/cp-1", "cp/b/cp-2", "cp/c/cp-3", "pool/b/w-3", "pool/a/w-1", "pool/a/w-2", "pool/b/w-4", "other/a/o-1"}

// inRound runs a test in a bubble of time with its manager and agents.
func inRound(t *testing.T, members []string, run func(t *testing.T, w *rebootWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newRebootWorld(t, members...)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		defer func() { cancel(); <-done }()
		go func() { defer close(done); w.serve(ctx) }()
		run(t, w)
	})
}

// Control planes go one at a time, then one failure domain after the other, no more at a time than may be away.
func TestClusterReboot(t *testing.T) {
	inRound(t, twoRacks, func(t *testing.T, w *rebootWorld) {
		if shown, err := w.command(t.Context(), "--dry-run"); err != nil || len(w.order) > 0 || w.round() != "" || len(shown.Hosts) != 8 || shown.Hosts[0].Host != "cp-1" {
			t.Fatalf("%+v, %v, %v, round %q", shown, err, w.order, w.round())
		}
		shown, err := w.command(t.Context(), "--max-unavailable", "2")
		if want := []string{"cp-1", "cp-2", "cp-3", "o-1", "w-1", "w-2", "w-3", "w-4"}; err != nil || !shown.Done || !slices.Equal(w.order, want) {
			t.Errorf("%v: %v, want %v", err, w.order, want)
		}
		if w.most != 2 || w.mostControlPlanes != 1 || w.mixed || w.round() != "" {
			t.Errorf("away were %d, of control planes %d, mixed %t, round %q", w.most, w.mostControlPlanes, w.mixed, w.round())
		}
	})
}

// Two commands at the same time, and one that is interrupted, make one round together.
func TestClusterRebootGoesOn(t *testing.T) {
	inRound(t, twoRacks, func(t *testing.T, w *rebootWorld) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if _, err := w.command(ctx); err == nil || !strings.Contains(err.Error(), "the same command goes on") || w.round() == "" || len(w.order) == 0 {
			t.Fatalf("interrupted: %v, round %q, %v", err, w.round(), w.order)
		}
		if _, err := w.command(t.Context(), "--if-needed"); err == nil || !strings.Contains(err.Error(), "is not over") {
			t.Errorf("another round: %v", err)
		}
		errs := make(chan error)
		for range 2 {
			go func() { _, err := w.command(t.Context()); errs <- err }()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if w.most != 1 || w.mixed || len(w.order) != 8 || w.round() != "" {
			t.Errorf("away were %d, round %q: %v", w.most, w.round(), w.order)
		}
	})
}

// A host that does not come back stops the round; once it is repaired the round goes on behind it.
func TestClusterRebootStopsAtAFailure(t *testing.T) {
	inRound(t, []string{"pool/a/w-1", "pool/a/w-2"}, func(t *testing.T, w *rebootWorld) {
		w.fails["w-1"] = true
		for range 2 {
			if _, err := w.command(t.Context()); err == nil || !strings.Contains(err.Error(), "host w-1: its Node is not ready. No further host is rebooted") || len(w.order) != 1 {
				t.Fatalf("%v, %v", err, w.order)
			}
		}
		clear(w.fails)
		m := &infrav1.HostMachine{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "i-w-1"}, m); err != nil {
			t.Fatal(err)
		}
		m.Spec.Reboots = ptr.To(*m.Spec.Reboots + 1)
		if err := w.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := w.command(t.Context()); err != nil || !slices.Equal(w.order, []string{"w-1", "w-1", "w-2"}) {
			t.Errorf("%v, %v", err, w.order)
		}
	})
}

// Hosts that are not ready count as away; those that ask for no reboot, are of another pool, or of a control plane
// without a quorum are left alone.
func TestClusterRebootLeavesAlone(t *testing.T) {
	inRound(t, []string{"cp/a/cp-1", "pool/a/w-1", "pool/a/w-2", "other/a/o-1"}, func(t *testing.T, w *rebootWorld) {
		h := &infrav1.Host{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "w-2"}, h); err != nil {
			t.Fatal(err)
		}
		h.Status.RebootRequired = &infrav1.HostRebootRequired{}
		if err := w.Update(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.command(t.Context(), "--if-needed"); err != nil || !slices.Equal(w.order, []string{"w-2"}) {
			t.Errorf("if needed: %v, %v", err, w.order)
		}
		w.order = nil
		if _, err := w.command(t.Context(), "--pool", "other"); err != nil || !slices.Equal(w.order, []string{"o-1"}) {
			t.Errorf("one pool: %v, %v", err, w.order)
		}
		w.order = nil
		if _, err := w.command(t.Context()); err == nil || !strings.Contains(err.Error(), "host cp-1 is left out: its control plane has 1 hosts") || !slices.Equal(w.order, []string{"o-1", "w-1", "w-2"}) {
			t.Errorf("all: %v, %v", err, w.order)
		}
		if _, err := w.command(t.Context(), "--pool", "none"); err == nil || !strings.Contains(err.Error(), `no hosts in "none"`) {
			t.Error(err)
		}

		w.order = nil
		m := &clusterv1.Machine{}
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "m-w-1"}, m); err != nil {
			t.Fatal(err)
		}
		meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionUnknown, Reason: "Silent"})
		if err := w.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		shown, err := w.command(t.Context(), "--pool", "pool")
		states := map[string]string{}
		for _, h := range shown.Hosts {
			states[h.Host] = string(h.State) + " " + h.Message
		}
		if want := map[string]string{"w-1": "Pending its Node is not ready", "w-2": "Pending "}; err == nil || !strings.Contains(err.Error(), "nothing has changed for 10m0s") || len(w.order) > 0 || !maps.Equal(states, want) {
			t.Errorf("a Node that is not ready: %v, %v, %v", err, w.order, states)
		}
	})
}

func TestClusterRebootOfAPausedCluster(t *testing.T) {
	inRound(t, twoRacks, func(t *testing.T, w *rebootWorld) {
		for annotation, c := range map[string]struct {
			change func(*clusterv1.Cluster)
			says   string
		}{
			"paused": {func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }, "is paused"},
			"spoilt": {func(c *clusterv1.Cluster) {
				c.Spec.Paused, c.Annotations = nil, map[string]string{infrav1.RebootRoundAnnotation: "x"}
			}, "remove it: kubectl annotate cluster c -n n"},
		} {
			cluster := &clusterv1.Cluster{}
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "c"}, cluster); err != nil {
				t.Fatal(err)
			}
			c.change(cluster)
			if err := w.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
			if _, err := w.command(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) || len(w.order) > 0 {
				t.Errorf("%s: %v", annotation, err)
			}
			cluster.Annotations = nil
			if err := w.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
		}
	})
}
