package plan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// history plays a controller that is killed at any point, the executors' effects,
// people, and a policy that is edited, in a random order, around one stored run.
type history struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	now    time.Time
	// stored is the run as the API server has it.
	stored *lifecyclev1.LifecycleRun
	policy *lifecyclev1.LifecyclePolicy
	// created counts the creations of each Job, by name; done are those that ended.
	created map[string]int
	done    map[string]bool
	// passed is how each step that passed has ended.
	passed map[string]lifecyclev1.StepOutcome
	log    []string
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 3)), now: start,
		created: map[string]int{}, done: map[string]bool{}, passed: map[string]lifecyclev1.StepOutcome{}}
	h.policy = policyOf(h.steps()...)
	h.stored = newRun(h.policy.Steps(lifecyclev1.BeforeClusterUpgrade)...)
	return h
}

func (h *history) one(in int) bool { return h.random.IntN(in) == 0 }

func (h *history) failf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("seed %d: %s\n%s", h.seed, fmt.Sprintf(format, args...), strings.Join(h.log[max(0, len(h.log)-40):], "\n"))
}

func (h *history) notef(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// steps are up to five of the names a to f, each now of this kind and now of that.
func (h *history) steps() []lifecyclev1.Step {
	var steps []lifecyclev1.Step
	for _, i := range h.random.Perm(6)[:1+h.random.IntN(5)] {
		name := string(rune('a' + i))
		s := []lifecyclev1.Step{job(name), job(name), apply(name), approval(name)}[h.random.IntN(4)]
		if h.one(3) {
			s.OnFailure = lifecyclev1.FailureContinue
		}
		if h.one(3) {
			timeout := int32(1 + h.random.IntN(300))
			s.TimeoutSeconds = &timeout
		}
		steps = append(steps, s)
	}
	return steps
}

// reconcile is one pass of a controller; it may be killed before each write.
func (h *history) reconcile() {
	run := h.stored.DeepCopy()
	if plan.Adopt(run, h.policy, &clusterv1.Cluster{}, h.now) && !h.store(run, "adopt") {
		return
	}
	action := plan.Next(run, h.now)
	switch action.Do {
	case plan.Begin, plan.End, plan.Restart:
		plan.Apply(run, action, h.now)
		h.store(run, string(action.Do)+" "+action.Step.Name)
	case plan.Execute:
		result, err := h.execute(run, action)
		if plan.RecordAttempt(run, action, result, err, h.now) {
			h.store(run, "settle "+action.Step.Name)
		}
	case plan.Nothing, plan.Pause:
	}
}

// store writes the run, unless the controller is killed before.
func (h *history) store(run *lifecyclev1.LifecycleRun, what string) bool {
	if h.one(4) {
		h.notef("killed before %s", what)
		return false
	}
	h.notef("%s: %+v", what, run.Spec.Progress)
	h.stored = run.DeepCopy()
	for i := range run.Spec.Steps {
		name := run.Spec.Steps[i].Name
		h.checkPassed(run, name)
	}
	return true
}

func (h *history) checkPassed(run *lifecyclev1.LifecycleRun, name string) {
	progress := run.Progress(name)
	before, did := h.passed[name]
	switch {
	case did && (progress == nil || progress.Outcome != before):
		h.failf("step %s had passed as %s, and now is %+v", name, before, progress)
	case progress != nil && (progress.Outcome == lifecyclev1.OutcomeSucceeded || progress.Outcome == lifecyclev1.OutcomeSkipped):
		h.passed[name] = progress.Outcome
	}
}

func (h *history) execute(run *lifecyclev1.LifecycleRun, action plan.Action) (step.Result, error) {
	s := action.Step
	progress := *h.stored.Progress(s.Name)
	h.notef("execute %s %+v", s.Name, progress)
	if progress.Outcome != "" {
		h.failf("step %s has ended and is executed", s.Name)
	}
	for i := range run.Spec.Steps {
		if run.Spec.Steps[i].Name == s.Name {
			break
		}
		if earlier := h.stored.Progress(run.Spec.Steps[i].Name); earlier == nil || earlier.Outcome == "" {
			h.failf("step %s is executed before %s has ended", s.Name, run.Spec.Steps[i].Name)
		}
	}
	if h.one(6) {
		return step.Result{}, errors.New("refused")
	}
	switch {
	case s.Job != nil:
		return h.executeJob(step.Name(run, progress, ""), progress.Job)
	case s.Approval != nil:
		return step.Result{Done: step.DecisionsFor(run, s.Name).Approve != nil}, nil
	default:
		return step.Result{Done: h.one(2)}, nil
	}
}

// executeJob does as the executor of jobs must: intent, creation, look.
func (h *history) executeJob(name string, ref *lifecyclev1.JobReference) (step.Result, error) {
	switch {
	case ref == nil:
		return step.Result{Job: &lifecyclev1.JobReference{Name: name}}, nil
	case ref.Name != name:
		h.failf("the Job of the record is %s, not %s", ref.Name, name)
	case ref.UID == "":
		if h.created[name] == 0 {
			h.created[name]++
			h.notef("created %s", name)
		}
		return step.Result{Job: &lifecyclev1.JobReference{Name: name, UID: "u"}}, nil
	case h.created[name] == 0:
		h.failf("Job %s is on record and was never created", name)
	case h.one(3):
		h.done[name] = true
		if h.one(3) {
			return step.Result{}, step.Terminal(errors.New("the Job failed"), "read its logs")
		}
		return step.Result{Done: true, Job: ref}, nil
	}
	return step.Result{Job: ref}, nil
}

// person decides what admission lets people decide.
func (h *history) person() {
	current := plan.Current(h.stored)
	if current == nil {
		return
	}
	switch failed := plan.Phase(h.stored) == lifecyclev1.RunFailed; {
	case failed && h.one(2):
		decide(h.stored, lifecyclev1.DecisionRetry, current.Name)
	case failed || h.one(8):
		decide(h.stored, lifecyclev1.DecisionSkip, current.Name)
	case current.Approval != nil:
		decide(h.stored, lifecyclev1.DecisionApprove, current.Name)
	default:
		return
	}
	h.notef("decided %+v", h.stored.Spec.Decisions[len(h.stored.Spec.Decisions)-1])
}

func (h *history) step() {
	switch h.random.IntN(12) {
	case 0:
		h.person()
	case 1:
		h.policy = policyOf(h.steps()...)
		h.notef("policy edited")
	case 2:
		h.now = h.now.Add(time.Duration(h.random.IntN(1200)-300) * time.Second)
		h.notef("clock at %s", h.now)
	default:
		h.now = h.now.Add(time.Duration(h.random.IntN(20)) * time.Second)
		h.reconcile()
	}
}

func TestAnyHistoryDoesThingsOnce(t *testing.T) {
	jobs, ended := 0, 0
	for seed := range uint64(1000) {
		h := newHistory(t, seed)
		for range 150 {
			h.step()
		}
		// The policy is left alone now, and people decide: it must come to an end.
		for i := 0; !plan.Finished(h.stored); i++ {
			if i > 20000 {
				h.failf("does not end: %+v", h.stored.Spec)
			}
			h.now = h.now.Add(10 * time.Second)
			h.reconcile()
			h.person()
		}
		for name, times := range h.created {
			jobs++
			if times > 1 {
				h.failf("Job %s was created %d times", name, times)
			}
			if strings.Count(name, "-r") > 0 && !h.retried() {
				h.failf("Job %s is of a retry that nobody asked for", name)
			}
		}
		before := h.stored.DeepCopy()
		for range 20 {
			h.step()
		}
		h.stored.Spec.Decisions, before.Spec.Decisions = nil, nil
		if !equal(before.Spec, h.stored.Spec) {
			h.failf("a finished run changed: %+v", h.stored.Spec)
		}
		ended += len(h.passed)
	}
	if jobs < 500 || ended < 500 {
		t.Errorf("only %d jobs and %d steps: the histories do not try enough", jobs, ended)
	}
}

func (h *history) retried() bool {
	for _, d := range h.stored.Spec.Decisions {
		if d.Type == lifecyclev1.DecisionRetry {
			return true
		}
	}
	return false
}
