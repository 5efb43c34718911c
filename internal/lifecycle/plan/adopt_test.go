package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

func equal(a, b any) bool { return apiequality.Semantic.DeepEqual(a, b) }

func policyOf(steps ...lifecyclev1.Step) *lifecyclev1.LifecyclePolicy {
	return &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: "rules", Generation: 2}, Spec: lifecyclev1.LifecyclePolicySpec{
		Mode: lifecyclev1.ModeEnforce, Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterUpgrade, Steps: steps}},
	}}
}

func TestAdopt(t *testing.T) {
	said := func(name, message string) lifecyclev1.Step {
		return with(approval(name), func(s *lifecyclev1.Step) { s.Approval.Message = message })
	}
	for _, c := range []struct {
		name    string
		run     *lifecyclev1.LifecycleRun
		policy  *lifecyclev1.LifecyclePolicy
		want    []lifecyclev1.Step
		records []string
	}{
		{"steps that have not begun", newRun(approval("a"), approval("b")), policyOf(said("b", "new"), approval("c")),
			[]lifecyclev1.Step{said("b", "new"), approval("c")}, nil},
		{"a passed step stays as it was, and first", begun(approval("a"), ended(lifecyclev1.OutcomeSucceeded)), policyOf(approval("z"), said("a", "new")),
			[]lifecyclev1.Step{approval("a"), approval("z")}, []string{"a"}},
		{"a passed step that the policy drops stays", begun(approval("a"), ended(lifecyclev1.OutcomeSkipped)), policyOf(approval("z")),
			[]lifecyclev1.Step{approval("a"), approval("z")}, []string{"a"}},
		{"a waiting step that is the same goes on", begun(approval("a"), nil), policyOf(approval("a")), []lifecyclev1.Step{approval("a")}, []string{"a"}},
		{"a waiting step that changes begins anew", begun(approval("a"), nil), policyOf(said("a", "new")), []lifecyclev1.Step{said("a", "new")}, nil},
		{"a waiting step that is dropped", begun(approval("a"), nil), policyOf(approval("b")), []lifecyclev1.Step{approval("b")}, nil},
		{"a failed step stays failed", begun(approval("a"), ended(lifecyclev1.OutcomeFailed)), policyOf(said("a", "new")), []lifecyclev1.Step{said("a", "new")}, []string{"a"}},
		{"a running job stays as it was", begun(job("a"), running), policyOf(approval("a"), approval("b")), []lifecyclev1.Step{job("a"), approval("b")}, []string{"a"}},
		{"a job that was not made yet is the policy's", begun(job("a"), announced), policyOf(with(job("a"), elsewhere)), []lifecyclev1.Step{with(job("a"), elsewhere)}, nil},
		{"a job that was not made yet is dropped", begun(job("a"), announced), policyOf(approval("b")), []lifecyclev1.Step{approval("b")}, nil},
		{"a running job that is dropped ends first", begun(job("a"), running), policyOf(approval("b")), []lifecyclev1.Step{job("a"), approval("b")}, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !plan.Adopt(c.run, c.policy, &clusterv1.Cluster{}, start) {
				t.Error("says that nothing changed")
			}
			if !equal(c.run.Spec.Steps, c.want) {
				t.Errorf("steps are %+v", c.run.Spec.Steps)
			}
			var records []string
			for _, p := range c.run.Spec.Progress {
				records = append(records, p.Name)
			}
			if !slices.Equal(records, c.records) {
				t.Errorf("records are of %v, want %v", records, c.records)
			}
			if c.run.Spec.PolicyGeneration != 2 {
				t.Errorf("generation is %d", c.run.Spec.PolicyGeneration)
			}
			if plan.Adopt(c.run, c.policy, &clusterv1.Cluster{}, start) {
				t.Error("the second time changes something, too")
			}
		})
	}
}

// A run whose steps have all passed is held back by a window that has closed: the policy
// that is edited then counts, until the hook has passed.
func TestAdoptWhileAWindowHoldsBack(t *testing.T) {
	nights := with(window("when"), func(s *lifecyclev1.Step) { s.Window.Schedule = "0 22 * * *" })
	always := with(window("when"), func(s *lifecyclev1.Step) { s.Window.Schedule = "* * * * *" })
	asked := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{ControlPlane: &clusterv1.ClusterControlPlaneStatus{
		UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.36.3"}},
	}}}
	for _, c := range []struct {
		name    string
		cluster *clusterv1.Cluster
		after   time.Duration
		skipped bool
		policy  *lifecyclev1.LifecyclePolicy
		want    []lifecyclev1.Step // nil when nothing changes
		phase   lifecyclev1.RunPhase
		holds   bool
	}{
		{"another window", asked, 2 * time.Hour, false, policyOf(nights, approval("go")), []lifecyclev1.Step{approval("go"), nights}, lifecyclev1.RunRunning, true},
		{"a window that is open", asked, 2 * time.Hour, false, policyOf(always, approval("go")), []lifecyclev1.Step{approval("go"), always}, lifecyclev1.RunRunning, true},
		{"no window", asked, 2 * time.Hour, false, policyOf(approval("go")), []lifecyclev1.Step{approval("go")}, lifecyclev1.RunSucceeded, false},
		{"a further step", asked, 2 * time.Hour, false, policyOf(window("when"), approval("go"), approval("again")),
			[]lifecyclev1.Step{window("when"), approval("go"), approval("again")}, lifecyclev1.RunRunning, true},
		{"the same", asked, 2 * time.Hour, false, policyOf(window("when"), approval("go")), nil, lifecyclev1.RunSucceeded, true},
		{"the window is open", asked, time.Minute, false, policyOf(approval("again")), nil, lifecyclev1.RunSucceeded, false},
		{"the policy is gone, the window is open", asked, time.Minute, false, nil, nil, lifecyclev1.RunSucceeded, false},
		{"the window was skipped", asked, 2 * time.Hour, true, policyOf(nights, approval("go")), nil, lifecyclev1.RunSucceeded, false},
		{"the hook has passed", &clusterv1.Cluster{}, 2 * time.Hour, false, policyOf(nights, approval("go")), nil, lifecyclev1.RunSucceeded, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := begun(window("when"), ended(lifecyclev1.OutcomeSucceeded))
			run.Spec.PolicyGeneration, run.Spec.Request.ToKubernetesVersion = 2, "v1.36.3"
			run.Spec.Steps[1] = approval("go")
			run.Spec.Progress = append(run.Spec.Progress, lifecyclev1.StepProgress{Name: "go", StartTime: metav1.NewTime(start)})
			ended(lifecyclev1.OutcomeSucceeded)(&run.Spec.Progress[1])
			if c.skipped {
				decide(run, lifecyclev1.DecisionSkip, "when")
			}
			now := start.Add(c.after)
			if changed := plan.Adopt(run, c.policy, c.cluster, now); changed != (c.want != nil) {
				t.Errorf("says that it changed: %t", changed)
			}
			if c.want != nil && !equal(run.Spec.Steps, c.want) {
				t.Errorf("steps are %+v", run.Spec.Steps)
			}
			if run.Progress("go") == nil {
				t.Error("the approval is forgotten")
			}
			if holds, message, _ := plan.Holds(run, c.cluster, now); plan.Phase(run) != c.phase || holds != c.holds {
				t.Errorf("phase %s, holds %t: %s", plan.Phase(run), holds, message)
			}
			if plan.Adopt(run, c.policy, c.cluster, now) {
				t.Error("the second time changes something, too")
			}
		})
	}
}

func TestSettled(t *testing.T) {
	run := begun(window("noon"), ended(lifecyclev1.OutcomeSucceeded))
	run.Spec.Steps, run.Spec.Request.ToKubernetesVersion = run.Spec.Steps[:1], "v1.36.3"
	asked := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{ControlPlane: &clusterv1.ClusterControlPlaneStatus{
		UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.36.3"}},
	}}}
	back := &clusterv1.Cluster{}
	back.Spec.Topology.Version = "v1.35.4"
	cancelled := run.DeepCopy()
	cancelled.Spec.Cancelled = "called off"
	for _, c := range []struct {
		name    string
		run     *lifecyclev1.LifecycleRun
		cluster *clusterv1.Cluster
		after   time.Duration
		want    bool
	}{
		{"waits", begun(approval("go"), nil), &clusterv1.Cluster{}, 0, false},
		{"asked, and its window will close", run, asked, time.Minute, false},
		{"asked, and its window has closed", run, asked, 2 * time.Hour, false},
		{"called off", run, back, 0, false},
		{"passed", run, &clusterv1.Cluster{}, 2 * time.Hour, true},
		{"cancelled", cancelled, back, 0, true},
	} {
		if got := plan.Settled(c.run, c.cluster, start.Add(c.after)); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func announced(p *lifecyclev1.StepProgress) {
	running(p)
	p.Job.UID = ""
}

func elsewhere(s *lifecyclev1.Step) { s.Job.Namespace = "elsewhere" }

func TestAdoptTakesOverTheMode(t *testing.T) {
	run, policy := begun(job("a"), running), policyOf(job("a"))
	policy.Spec.Mode = lifecyclev1.ModeAudit
	if !plan.Adopt(run, policy, &clusterv1.Cluster{}, start) || run.Spec.Mode != lifecyclev1.ModeAudit {
		t.Errorf("mode is %s", run.Spec.Mode)
	}
}

func TestAdoptLeavesFinishedRuns(t *testing.T) {
	run := begun(approval("a"), ended(lifecyclev1.OutcomeSucceeded))
	run.Spec.Steps = run.Spec.Steps[:1]
	before := run.DeepCopy()
	if plan.Adopt(run, policyOf(approval("b")), &clusterv1.Cluster{}, start) || !equal(before, run) {
		t.Error("a finished run was changed")
	}
}

func TestAdoptKeepsWithinWhatARunCanHold(t *testing.T) {
	run := newRun(approval("last"))
	for i := range 60 {
		s := approval(fmt.Sprintf("old-%d", i))
		run.Spec.Steps = append([]lifecyclev1.Step{s}, run.Spec.Steps...)
		progress := lifecyclev1.StepProgress{Name: s.Name}
		ended(lifecyclev1.OutcomeSucceeded)(&progress)
		run.Spec.Progress = append(run.Spec.Progress, progress)
	}
	var steps []lifecyclev1.Step
	for i := range 32 {
		steps = append(steps, approval(fmt.Sprintf("new-%d", i)))
	}
	plan.Adopt(run, policyOf(steps...), &clusterv1.Cluster{}, start)
	if len(run.Spec.Steps) != 64 || len(run.Spec.Progress) != 32 || run.Step("new-31") == nil {
		t.Errorf("%d steps, %d records", len(run.Spec.Steps), len(run.Spec.Progress))
	}
}

func TestPinsLastAsLongAsTheirStep(t *testing.T) {
	pinned := func(run *lifecyclev1.LifecycleRun) *lifecyclev1.LifecycleRun {
		run.Spec.Pins = []lifecyclev1.Pin{{Step: "a", Digest: "sha256:1"}, {Step: "b", Digest: "sha256:2"}}
		return run
	}
	other := with(apply("b"), func(s *lifecyclev1.Step) {
		s.Apply.Sources = []lifecyclev1.ManifestSource{{Kind: "ConfigMap", Name: "other"}}
	})
	run := pinned(newRun(apply("a"), apply("b")))
	plan.Adopt(run, policyOf(apply("a"), other), &clusterv1.Cluster{}, start)
	if run.Pin("a") == "" || run.Pin("b") != "" {
		t.Errorf("after an edit of b: %+v", run.Spec.Pins)
	}
	run = pinned(newRun(apply("a"), apply("b")))
	plan.Adopt(run, policyOf(apply("b")), &clusterv1.Cluster{}, start)
	if run.Pin("a") != "" || run.Pin("b") == "" {
		t.Errorf("without a: %+v", run.Spec.Pins)
	}
	run = pinned(newRun(apply("a"), apply("b")))
	step := run.Step("a")
	plan.Apply(run, plan.Action{Do: plan.Begin, Step: step}, start)
	if run.Pin("a") == "" {
		t.Error("a step that begins loses its pin")
	}
	plan.Apply(run, plan.Action{Do: plan.Restart, Step: step}, start)
	if run.Pin("a") != "" || run.Pin("b") == "" {
		t.Errorf("after a retry of a: %+v", run.Spec.Pins)
	}
}
