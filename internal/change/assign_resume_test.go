package change_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

var errCrashed = errors.New("crashed")

// crashing is a client that is dead after so many writes.
func crashing(writes int) client.Client {
	write := func(do func() error) error {
		if writes == 0 {
			return errCrashed
		}
		writes--
		return do()
	}
	return interceptor.NewClient(env.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if writes == 0 {
				return errCrashed
			}
			return c.Get(ctx, key, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if len((&client.CreateOptions{}).ApplyOptions(options).DryRun) > 0 {
				return c.Create(ctx, o, options...)
			}
			return write(func() error { return c.Create(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			return write(func() error { return c.Patch(ctx, o, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, options...) })
		},
	})
}

// Each write may be the last before a crash: the next run goes on.
func TestResume(t *testing.T) {
	for writes, name := range []string{1: "after the assignment", 2: "after the Host there", 3: "after the deletion"} {
		if writes == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.free("h1")
			if writes > 2 {
				w.play()
			}
			if _, err := w.assign(crashing(writes), 3*time.Second, "h1"); err == nil {
				t.Fatal("it did not crash")
			}
			there := w.get(w.to, "h1")
			if (there != nil) != (writes > 1) {
				t.Fatalf("after %d writes the Host there is %+v", writes, there)
			}
			if here := w.get(w.from, "h1"); writes < 3 && here.Spec.AssignedNamespace != w.to {
				t.Errorf("after %d writes it is assigned to %q", writes, here.Spec.AssignedNamespace)
			}
			if writes <= 2 {
				w.play()
			}
			state := change.StateAssigned
			if writes == 3 {
				poll.True(t, "the Host here is gone", func() bool { return w.get(w.from, "h1") == nil })
				state = change.StateUnchanged
			}
			w.assigned(state, "h1")
			if now := w.get(w.to, "h1"); now == nil || there != nil && now.UID != there.UID || w.get(w.from, "h1") != nil {
				t.Errorf("the Host there was made anew, or the one here is left: %+v", now)
			}
		})
	}
}

// A Host that is deleted and held by its finalizer is waited for by the next run, too.
func TestResumeWhileItGoes(t *testing.T) {
	w := newWorld(t)
	h := w.free("h1", func(h *infrav1.Host) { h.Spec.AssignedNamespace = w.to }).Host(t)
	w.there("h1", h.Spec.HostID, metav1.ConditionTrue)
	if _, err := w.assign(env.Client, 2*time.Second, "h1"); err == nil || !strings.Contains(err.Error(), "waits until Host "+w.from+"/h1, which its agent has left, is gone") {
		t.Errorf("got %v", err)
	}
	// The Host may go only once the run has seen it: one that is gone before is "unchanged".
	o := change.AssignOptions{Client: env.Client, From: w.from, To: w.to, Timeout: time.Minute, Report: func(string, string) { w.play() }}
	results, err := change.Assign(t.Context(), o, []string{"h1"})
	if want := (change.Assigned{Namespace: w.to, Name: "h1", State: change.StateAssigned}); err != nil || !slices.Equal(results, []change.Assigned{want}) {
		t.Errorf("got %+v, %v, want %+v", results, err, want)
	}
}

// An agent that does not go in time is left alone, and followed by the next run, even when
// it is at neither of the two for a moment.
func TestTimeout(t *testing.T) {
	w := newWorld(t)
	a := w.free("h1")
	_, err := w.assign(env.Client, time.Second, "h1")
	for _, want := range []string{"host h1: not in namespace " + w.to + " within 1s: it waits for its agent to go over to Host " + w.to + "/h1", "the same command goes on"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if h := a.Host(t); h.Spec.AssignedNamespace != w.to || !h.DeletionTimestamp.IsZero() {
		t.Errorf("spec %+v", h.Spec)
	}
	a.Connect(t, false)
	w.play()
	w.assigned(change.StateAssigned, "h1")
}

// Who interrupts the command is told that it goes on.
func TestInterrupt(t *testing.T) {
	w := newWorld(t)
	w.free("h1")
	ctx, cancel := context.WithCancel(t.Context())
	o := change.AssignOptions{Client: env.Client, From: w.from, To: w.to, Timeout: time.Minute, Report: func(string, string) { cancel() }}
	if _, err := change.Assign(ctx, o, []string{"h1"}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the same command goes on") {
		t.Errorf("got %v", err)
	}
}

// meanwhile is a client that has something happen before a patch or a deletion, once.
func meanwhile(beforePatch, beforeDelete func()) client.Client {
	once := func(f *func()) {
		if do := *f; do != nil {
			*f = nil
			do()
		}
	}
	return interceptor.NewClient(env.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			once(&beforePatch)
			return c.Patch(ctx, o, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			once(&beforeDelete)
			return c.Delete(ctx, o, options...)
		},
	})
}

// change changes the Host here.
func (w *world) change(change func(*infrav1.Host)) {
	w.t.Helper()
	h := w.get(w.from, "h1")
	change(h)
	if err := env.Client.Update(context.Background(), h); err != nil {
		w.t.Fatal(err)
	}
}

func claim(h *infrav1.Host) {
	h.Spec.Claim, h.Spec.ClaimGeneration = &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "id"}, h.Spec.ClaimGeneration+1
}

// A claim that is made after the Host was read and before it is assigned wins, and nothing
// is left in the other namespace.
func TestAClaimWins(t *testing.T) {
	w := newWorld(t)
	w.free("h1")
	c := meanwhile(func() { w.change(claim) }, nil)
	if _, err := w.assign(c, time.Second, "h1"); err == nil || !strings.Contains(err.Error(), "HostMachine m of Cluster c has the Host "+w.from+"/h1") {
		t.Errorf("got %v", err)
	}
	if here, there := w.get(w.from, "h1"), w.get(w.to, "h1"); here.Spec.Claim == nil || here.Spec.AssignedNamespace != "" || there != nil {
		t.Errorf("%+v\n%+v", here.Spec, there)
	}
}

// A claim that came and went counts.
func TestAClaimThatCameAndWent(t *testing.T) {
	w := newWorld(t)
	a := w.free("h1")
	c := meanwhile(func() {
		w.change(claim)
		w.change(func(h *infrav1.Host) { h.Spec.Claim = nil })
		a.Report(t, func(s *infrav1.HostStatus) { s.CleanProof.ClaimGeneration = 1 })
	}, nil)
	w.play()
	if _, err := w.assign(c, time.Minute, "h1"); err != nil {
		t.Fatal(err)
	}
	if there := w.get(w.to, "h1"); there.Spec.ClaimGeneration != 1 {
		t.Errorf("the Host there has claim generation %d", there.Spec.ClaimGeneration)
	}
}

// A name that another machine takes there meanwhile leaves the host as it was.
func TestTheNameIsTakenMeanwhile(t *testing.T) {
	w := newWorld(t)
	a := w.free("h1")
	c := meanwhile(func() { w.there("h1", "thief", metav1.ConditionFalse) }, nil)
	if _, err := w.assign(c, time.Second, "h1"); err == nil || !strings.Contains(err.Error(), "belongs to another machine") {
		t.Errorf("got %v", err)
	}
	if here := a.Host(t); here.Spec.AssignedNamespace != "" {
		t.Errorf("it stays assigned to %s", here.Spec.AssignedNamespace)
	}
}

// What only changes the status of a host, or makes the same Host there, is no reason to refuse.
func TestHarmlessChanges(t *testing.T) {
	w := newWorld(t)
	w.play()
	a, b := w.free("h1"), w.free("h2")
	for name, change := range map[string]func(){
		"h1": func() { a.Report(t, func(s *infrav1.HostStatus) { s.BootID = "boot-2" }) },
		"h2": func() { w.there("h2", b.Host(t).Spec.HostID, metav1.ConditionFalse) },
	} {
		c := meanwhile(change, nil)
		if results, err := w.assign(c, time.Minute, name); err != nil || len(results) != 1 {
			t.Errorf("%s: %+v, %v", name, results, err)
		}
	}
}

// Only the Host that the agent left is deleted, as it was seen.
func TestDeletesNothingElse(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*world)
		want      string
	}{
		"claimed":    {func(w *world) { w.change(claim) }, "has claimed the Host"},
		"taken back": {func(w *world) { w.change(func(h *infrav1.Host) { h.Spec.AssignedNamespace = "" }) }, "somebody took it back"},
		"another Host of the name": {func(w *world) {
			h := w.get(w.from, "h1")
			w.change(func(h *infrav1.Host) { h.Finalizers = nil })
			if err := env.Client.Delete(context.Background(), h); err != nil {
				w.t.Fatal(err)
			}
			h = &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.from, Name: "h1"}, Spec: infrav1.HostSpec{HostID: "next"}}
			if err := env.Client.Create(context.Background(), h); err != nil {
				w.t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.there("h1", w.free("h1", func(h *infrav1.Host) { h.Spec.AssignedNamespace = w.to }).Host(t).Spec.HostID, metav1.ConditionTrue)
			_, err := w.assign(meanwhile(nil, func() { tc.meanwhile(w) }), 10*time.Second, "h1")
			if fmt.Sprint(err) != "<nil>" && tc.want == "" || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if h := w.get(w.from, "h1"); h == nil || !h.DeletionTimestamp.IsZero() {
				t.Errorf("it was deleted: %+v", h)
			}
		})
	}
}

// A Host there that goes, or becomes another machine's, while the agent is waited for takes
// none with it here.
func TestTheHostThereGoes(t *testing.T) {
	for name, hostID := range map[string]string{"gone": "", "another machine's": "thief"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.free("h1")
			o := change.AssignOptions{Client: env.Client, From: w.from, To: w.to, Timeout: time.Minute, Report: func(string, string) {
				h := w.get(w.to, "h1")
				h.Finalizers = nil
				if err := errors.Join(env.Client.Update(context.Background(), h), env.Client.Delete(context.Background(), h)); err != nil {
					t.Error(err)
				}
				if hostID != "" {
					w.there("h1", hostID, metav1.ConditionTrue)
				}
			}}
			if _, err := change.Assign(t.Context(), o, []string{"h1"}); err == nil || !strings.Contains(err.Error(), "somebody deleted the Host") && hostID == "" || !strings.Contains(err.Error(), "belongs to another machine now") && hostID != "" {
				t.Errorf("got %v", err)
			}
			if h := w.get(w.from, "h1"); h == nil || !h.DeletionTimestamp.IsZero() {
				t.Errorf("it was deleted: %+v", h)
			}
		})
	}
}

// user is somebody with verbs on the Hosts of each namespace, and nothing else.
func user(t *testing.T, name string, verbs map[string][]string) client.Client {
	t.Helper()
	for namespace, allowed := range verbs {
		env.GrantIn(t, name, namespace, rbacv1.PolicyRule{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}, Verbs: allowed})
	}
	c, err := client.New(env.As(name), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// policyInForce waits until the API server asks for the verb order: it learns of a policy a
// moment after it was made, and would let everybody assign until then.
func policyInForce(t *testing.T, namespace string) {
	t.Helper()
	c := user(t, "probe", map[string][]string{namespace: {"create"}})
	poll.Until(t, "the API server learns of the policy", func() error {
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Spec: infrav1.HostSpec{HostID: "probe"}}
		if err := c.Create(t.Context(), h, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "may not order") {
			return fmt.Errorf("a Host with a key may be made: %v", err) //nolint:errorlint // may be nil
		}
		return nil
	})
}

// Who may not order hosts in both namespaces changes neither; who may needs nothing but hosts.
func TestRights(t *testing.T) {
	w := newWorld(t)
	w.play()
	w.free("h1")
	policyInForce(t, w.to)
	here, there := []string{"get", "patch", "delete"}, []string{"get", "create"}
	ordering := func(verbs []string) []string { return append([]string{"order"}, verbs...) }
	for name, tc := range map[string]struct {
		verbs map[string][]string
		want  string
	}{
		"order-there": {map[string][]string{w.from: here, w.to: ordering(there)}, "it takes the verbs patch and order on hosts in namespace " + w.from + ": hosts.infrastructure.slipway.dev \"h1\" is forbidden"},
		"order-here":  {map[string][]string{w.from: ordering(here), w.to: there}, "it takes the verbs create and order on hosts in namespace " + w.to + ": hosts.infrastructure.slipway.dev \"h1\" is forbidden"},
	} {
		c := user(t, name, tc.verbs)
		poll.Until(t, "the API server learns of rights and policy", func() error {
			if _, err := w.assign(c, time.Second, "h1"); err == nil || !strings.Contains(err.Error(), tc.want) {
				return fmt.Errorf("got %v, want %q", err, tc.want) //nolint:errorlint // may be nil
			}
			return nil
		})
		if w.get(w.from, "h1").Spec.AssignedNamespace != "" || w.get(w.to, "h1") != nil {
			t.Errorf("%s changed something", name)
		}
	}
	c := user(t, "assigner", map[string][]string{w.from: ordering(here), w.to: ordering(there)})
	poll.Until(t, "the API server learns of rights", func() error {
		_, err := w.assign(c, 20*time.Second, "h1")
		return err
	})
	if w.get(w.from, "h1") != nil || w.get(w.to, "h1").Spec.ClaimGeneration != 0 {
		t.Error("it is not there")
	}
}
