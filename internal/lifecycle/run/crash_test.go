package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// counting counts the jobs that are created, by name. It sees a creation also when
// its caller is killed at that moment.
func counting(c client.WithWatch, created map[string]int) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, obj, opts...)
			if _, job := obj.(*corev1.ConfigMap); job && err == nil {
				created[obj.GetName()]++
			}
			return err
		},
	})
}

// TestKilledAtEveryWrite kills the controller right after each of its writes in turn,
// and lets a new one go on.
func TestKilledAtEveryWrite(t *testing.T) {
	testenv.KilledAtEachWrite(t, 12, killedAfter)
}

func killedAfter(t *testing.T, crash *testenv.Crash) {
	w := newWorld(t, upgrade, applyStep("first"), jobStep("smoke"), approvalStep(), jobStep("again"), applyStep("last"))
	created := map[string]int{}
	counted := counting(env.Client, created)
	killed := w.reconciler(testenv.NewCrashing(counted, crash))
	// The second job fails for good, and is retried.
	w.effects.fail = map[string]error{"again": step.Terminal(errRefused, "")}
	w.decide(lifecyclev1.DecisionApprove, "go")
	for range 3 {
		if _, err := killed.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil && !isCrash(err) {
			t.Fatal(err)
		}
	}
	w.Reconciler = w.reconciler(counted)
	w.expect(lifecyclev1.RunFailed, "again", "")
	w.effects.fail = nil
	w.decide(lifecyclev1.DecisionRetry, "again")
	got := w.expect(lifecyclev1.RunSucceeded, "", "5 of 5 steps succeeded")
	if want := map[string]int{"edge-1-smoke": 1, "edge-1-again-r1": 1}; fmt.Sprint(created) != fmt.Sprint(want) {
		t.Errorf("created %v, want %v", created, want)
	}
	if order := slices.Compact(slices.Clone(w.effects.executed)); !slices.Equal(order, []string{"first", "smoke", "again", "last"}) {
		t.Errorf("executed %v", w.effects.executed)
	}
	// At most the attempt that was under way is repeated.
	if n := count(w.effects.executed, "first"); n > 2 {
		t.Errorf("first was executed %d times", n)
	}
	if len(got.Spec.Progress) != 5 {
		t.Errorf("records are %+v", got.Spec.Progress)
	}
}

func count(of []string, what string) int {
	n := 0
	for _, s := range of {
		if s == what {
			n++
		}
	}
	return n
}

func isCrash(err error) bool {
	return errors.Is(err, testenv.ErrCrashed) || strings.Contains(err.Error(), testenv.ErrCrashed.Error())
}

// TestALateCacheRepeatsNothing gives the controller a cache that never learns of what
// was written since the run was created.
func TestALateCacheRepeatsNothing(t *testing.T) {
	w := newWorld(t, upgrade, jobStep("smoke"), approvalStep())
	old := w.run()
	created := map[string]int{}
	late := interceptor.NewClient(counting(env.Client, created), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if got, isRun := obj.(*lifecyclev1.LifecycleRun); isRun && key == w.key {
				old.DeepCopyInto(got)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	w.Reconciler = w.reconciler(env.Client)
	w.Client = late
	for range 3 {
		w.expect(lifecyclev1.RunWaiting, "go", "")
	}
	if n := count(w.effects.executed, "smoke"); n != 3 {
		t.Errorf("smoke was executed %d times, want 3: intent, creation, look", n)
	}
}

// TestTwoControllersDoNotBothGoOn lets a second controller finish a step while the
// first, which has lost its lease and does not know, executes it.
func TestTwoControllersDoNotBothGoOn(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("first"), applyStep("last"))
	first := w.reconciler(env.Client)
	other := w.reconciler(env.Client)
	var overtaken bool
	use(first, "apply", executorFunc(func(ctx context.Context, in step.Input) (step.Result, error) {
		if !overtaken {
			overtaken = true
			if _, err := other.Reconcile(ctx, ctrl.Request{NamespacedName: w.key}); err != nil {
				t.Error(err)
			}
		}
		return step.Result{}, step.Terminal(errRefused, "")
	}))
	result, err := first.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %+v, %v; want to look again", result, err)
	}
	got := w.expect(lifecyclev1.RunSucceeded, "", "2 of 2 steps succeeded")
	if got.Progress("first").Failures != 0 {
		t.Errorf("the late result was written: %+v", got.Progress("first"))
	}
}

// TestADecisionDuringAnAttemptIsNotLost writes a decision between the read and the
// write of the controller.
func TestADecisionDuringAnAttemptIsNotLost(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("first"))
	decided := false
	use(w.Reconciler, "apply", executorFunc(func(context.Context, step.Input) (step.Result, error) {
		if !decided {
			decided = true
			w.decide(lifecyclev1.DecisionSkip, "first")
		}
		return step.Result{}, errRefused
	}))
	if _, result := w.reconcile(); result.RequeueAfter == 0 {
		t.Error("does not look again")
	}
	w.expect(lifecyclev1.RunSucceeded, "", "1 skipped")
}

type executorFunc func(context.Context, step.Input) (step.Result, error)

func (f executorFunc) Execute(ctx context.Context, in step.Input) (step.Result, error) {
	return f(ctx, in)
}

// TestStoppingIsNotAFailure cancels the controller while it executes.
func TestStoppingIsNotAFailure(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("first"))
	stopping, stop := context.WithCancel(ctx)
	use(w.Reconciler, "apply", executorFunc(func(ctx context.Context, _ step.Input) (step.Result, error) {
		stop()
		return step.Result{}, ctx.Err()
	}))
	if _, err := w.Reconcile(stopping, ctrl.Request{NamespacedName: w.key}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if p := w.run().Progress("first"); p == nil || p.Failures != 0 || p.Outcome != "" {
		t.Errorf("record is %+v", p)
	}
}
