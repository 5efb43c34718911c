package policy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
)

type guarded struct {
	*world
	*policy.NamespaceReconciler
	clock *clocktesting.FakeClock
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	w := newWorld(t)
	clock := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	return &guarded{world: w, clock: clock, NamespaceReconciler: &policy.NamespaceReconciler{
		Guard: policy.Guard{Client: env.Client, APIReader: env.Client}, Clock: clock,
	}}
}

// gate is a policy that holds deletions back.
func (g *guarded) gate(name string) *lifecyclev1.LifecyclePolicy {
	g.t.Helper()
	p := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: lifecyclev1.LifecyclePolicySpec{
		Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterDelete, Steps: []lifecyclev1.Step{approvalStep()}}},
	}}
	g.create(p)
	return p
}

// look reconciles the Namespace and returns when that is to happen again.
func (g *guarded) look() time.Duration {
	g.t.Helper()
	result, err := g.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: g.namespace}})
	if err != nil {
		g.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (g *guarded) sweep() {
	g.t.Helper()
	if result, err := g.Reconcile(ctx, ctrl.Request{}); err != nil || result.RequeueAfter == 0 {
		g.t.Fatalf("the sweep answers %v, %v", result, err)
	}
}

func (g *guarded) expectLabel(want, unused bool, when string) {
	g.t.Helper()
	namespace := &corev1.Namespace{}
	if err := env.Client.Get(ctx, client.ObjectKey{Name: g.namespace}, namespace); err != nil {
		g.t.Fatal(err)
	}
	_, label := namespace.Labels[lifecyclev1.DeletionGuardLabel]
	_, record := namespace.Annotations[lifecyclev1.DeletionGuardUnusedAnnotation]
	if label != want || record != unused {
		g.t.Fatalf("%s: the label is there: %t, want %t; the record that it is unused: %t, want %t", when, label, want, record, unused)
	}
}

// A Namespace has the label while a policy there may hold back the deletion of a Cluster, and
// for some minutes after the last one.
func TestNamespacesAreGuardedWhileAPolicyNeedsIt(t *testing.T) {
	g := newGuarded(t)
	g.policy("upgrades", approvalStep())
	g.look()
	g.expectLabel(false, false, "with a policy of another hook")
	gate := g.gate("gate")
	g.look()
	g.expectLabel(true, false, "with a policy that was stored without its webhook")
	gate.Spec.Mode = lifecyclev1.ModeAudit
	if err := env.Client.Update(ctx, gate); err != nil {
		t.Fatal(err)
	}
	after := g.look()
	g.expectLabel(true, true, "just after the last policy has let go")
	g.clock.Step(after - time.Second)
	if rest := g.look(); rest != time.Second {
		t.Errorf("it is looked at again after %s, want the rest of the delay", rest)
	}
	g.expectLabel(true, true, "before the delay has passed")
	g.clock.Step(time.Second)
	g.look()
	g.expectLabel(false, false, "after the delay")
}

// The label that no policy needs is found without an event: whoever deleted the policies did
// so while no leader ran, or a policy was refused after its webhook had set the label.
func TestSweepFindsWhatNobodyNeeds(t *testing.T) {
	g := newGuarded(t)
	if err := g.Set(ctx, g.namespace); err != nil {
		t.Fatal(err)
	}
	g.sweep()
	g.expectLabel(true, true, "after the first sweep")
	g.clock.Step(time.Hour)
	g.sweep()
	g.expectLabel(false, false, "after the delay")
}

// A policy that is admitted while the label is on its way out keeps it, at whichever read or
// write of the reconciler that happens, and however late the API server stores the policy.
func TestNoPolicyLosesItsGuard(t *testing.T) {
	moments := []string{"before the record is written", "after the record", "before the policies are read", "before the label is removed"}
	for _, moment := range moments {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stored late: %t", moment, late), func(t *testing.T) {
				g := newGuarded(t)
				if err := g.Set(ctx, g.namespace); err != nil {
					t.Fatal(err)
				}
				admitted, stored := false, false
				store := func() {
					if admitted && !stored {
						stored = true
						g.gate("gate")
					}
				}
				reached := func(now string) {
					if now != moment || admitted {
						return
					}
					admitted = true
					// What the webhook does before the API server stores the policy.
					if err := g.Set(ctx, g.namespace); err != nil {
						t.Error(err)
					}
					if !late {
						store()
					}
				}
				g.lookWhile(t, func() {}, func() { reached("before the record is written") })
				reached("after the record")
				// The API server ends a request after one minute.
				g.clock.Step(time.Minute)
				store()
				g.clock.Step(5 * time.Minute)
				g.lookWhile(t, func() { reached("before the policies are read") }, func() { reached("before the label is removed") })
				g.expectLabelThere("before the policy is stored")
				store()
				g.look()
				g.expectLabel(true, false, "once the policy is stored")
			})
		}
	}
}

// lookWhile reconciles the Namespace and calls list before each list of policies, patch before
// each write.
func (g *guarded) lookWhile(t *testing.T, list, patch func()) {
	t.Helper()
	c := interceptor.NewClient(env.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			if _, policies := o.(*lifecyclev1.LifecyclePolicyList); policies {
				list()
			}
			return c.List(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			patch()
			return c.Patch(ctx, o, p, opts...)
		},
	})
	reconciler := *g.NamespaceReconciler
	reconciler.Guard = policy.Guard{Client: c, APIReader: c}
	if _, err := reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: g.namespace}}); err != nil {
		t.Fatal(err)
	}
}

func (g *guarded) expectLabelThere(when string) {
	g.t.Helper()
	namespace := &corev1.Namespace{}
	if err := env.Client.Get(ctx, client.ObjectKey{Name: g.namespace}, namespace); err != nil {
		g.t.Fatal(err)
	}
	if _, label := namespace.Labels[lifecyclev1.DeletionGuardLabel]; !label {
		g.t.Errorf("%s the label is gone", when)
	}
}
