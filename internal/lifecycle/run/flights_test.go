package run_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// long is an executor whose attempts of one run last until they are let go, or cut off.
type long struct {
	of string
	// began and ended tell of each attempt.
	began, ended chan struct{}
	goOn         chan struct{}
	limit        time.Duration
}

func newLong(of string) *long {
	return &long{of: of, began: make(chan struct{}, 100), ended: make(chan struct{}, 100), goOn: make(chan struct{})}
}

func (l *long) Execute(ctx context.Context, in step.Input) (step.Result, error) {
	if in.Run.Name != l.of {
		return step.Result{Done: true, Message: "short"}, nil
	}
	deadline, _ := ctx.Deadline()
	l.limit = time.Until(deadline)
	l.began <- struct{}{}
	defer func() { l.ended <- struct{}{} }()
	select {
	case <-l.goOn:
		return step.Result{Done: true, Message: "long"}, nil
	case <-ctx.Done():
		return step.Result{}, ctx.Err()
	}
}

// TestALongAttemptHoldsUpNobody has one worker, and two runs.
func TestALongAttemptHoldsUpNobody(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("save", func(s *lifecyclev1.Step) { s.TimeoutSeconds = ptr.To[int32](1800) }))
	l := newLong("edge-1")
	w.start(func(r *run.Reconciler) { use(r, "apply", l) })
	<-l.began
	if l.limit < 29*time.Minute {
		t.Errorf("the attempt may take %s of the step's half hour", l.limit)
	}
	second := w.run().DeepCopy()
	second.Name, second.ResourceVersion, second.UID = "edge-2", "", ""
	second.Spec.Progress = nil
	w.create(second)
	is := func(name string, phase lifecyclev1.RunPhase) func(*lifecyclev1.LifecycleRun) bool {
		return func(r *lifecyclev1.LifecycleRun) bool { return r.Name == name && r.Status.Phase == phase }
	}
	until(w, &lifecyclev1.LifecycleRunList{}, "the second succeeds beside the first", is("edge-2", lifecyclev1.RunSucceeded))
	until(w, &lifecyclev1.LifecycleRunList{}, "the first tells", func(r *lifecyclev1.LifecycleRun) bool {
		return r.Name == "edge-1" && strings.Contains(r.Status.Report, "under way")
	})
	// A decision about another step is none of its business.
	w.decide(lifecyclev1.DecisionApprove, "another")
	until(w, &lifecyclev1.LifecycleRunList{}, "the decision is seen", func(r *lifecyclev1.LifecycleRun) bool {
		return r.Name == "edge-1" && r.Status.ObservedGeneration == r.Generation && len(r.Spec.Decisions) == 1
	})
	close(l.goOn)
	until(w, &lifecyclev1.LifecycleRunList{}, "the first succeeds", is("edge-1", lifecyclev1.RunSucceeded))
	if again := len(l.began); again != 0 {
		t.Errorf("the attempt was made %d times more", again)
	}
}

// TestALongAttemptEndsWithWhatItIsFor: nothing is written about a step while an attempt of it
// goes on.
func TestALongAttemptEndsWithWhatItIsFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*world)
		phase lifecyclev1.RunPhase
	}{
		{"skipped", func(w *world) { w.decide(lifecyclev1.DecisionSkip, "save") }, lifecyclev1.RunSucceeded},
		{"called off", func(w *world) { w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" }) }, lifecyclev1.RunCancelled},
		{"paused", func(w *world) { w.change(w.cluster, func() { w.cluster.Spec.Paused = ptr.To(true) }) }, lifecyclev1.RunRunning},
		{"its time is over", func(w *world) { w.clock.Step(time.Hour) }, lifecyclev1.RunFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, upgrade, applyStep("save"))
			l := newLong("edge-1")
			use(w.Reconciler, "apply", l)
			w.expect(lifecyclev1.RunRunning, "save", "under way")
			<-l.began
			c.end(w)
			w.reconcile()
			select {
			case <-l.ended:
			default:
				t.Error("the attempt goes on")
			}
			if got := w.run(); got.Status.Phase != c.phase {
				t.Errorf("phase %s, want %s", got.Status.Phase, c.phase)
			}
			if again := len(l.began); again != 0 {
				t.Errorf("the attempt was made %d times more", again)
			}
		})
	}
}

// TestAChangedStepIsNotAnsweredByTheAttemptBefore edits the policy while an attempt goes on.
func TestAChangedStepIsNotAnsweredByTheAttemptBefore(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("save"))
	l := newLong("edge-1")
	use(w.Reconciler, "apply", l)
	w.expect(lifecyclev1.RunRunning, "save", "under way")
	<-l.began
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps[0].Apply.Sources[0].Name = "other" })
	w.expect(lifecyclev1.RunRunning, "save", "under way")
	<-l.ended
	<-l.began
	close(l.goOn)
	poll.Until(t, "it succeeds", func() error {
		w.reconcile()
		if got := w.run(); got.Status.Phase != lifecyclev1.RunSucceeded {
			return errRefused
		}
		return nil
	})
}

// TestAPanicIsAFailedAttempt: it ends neither the program nor the run.
func TestAPanicIsAFailedAttempt(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("save"))
	use(w.Reconciler, "apply", executorFunc(func(context.Context, step.Input) (step.Result, error) { panic("no such page") }))
	got, _ := w.reconcile()
	if p := got.Progress("save"); p.Failures != 1 || !strings.Contains(p.Message, "panic: no such page") {
		t.Errorf("record is %+v", p)
	}
}
