package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func approval(name string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Approval: &lifecyclev1.ApprovalStep{}, OnFailure: lifecyclev1.FailureBlock}
}

func apply(name string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Apply: &lifecyclev1.ApplyStep{}, OnFailure: lifecyclev1.FailureBlock}
}

func job(name string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetManagement}, OnFailure: lifecyclev1.FailureBlock}
}

func window(name string) lifecyclev1.Step {
	return lifecyclev1.Step{Name: name, Window: &lifecyclev1.WindowStep{Schedule: "0 12 * * *", DurationSeconds: 3600}, OnFailure: lifecyclev1.FailureBlock}
}

func with(s lifecyclev1.Step, change func(*lifecyclev1.Step)) lifecyclev1.Step {
	change(&s)
	return s
}

func newRun(steps ...lifecyclev1.Step) *lifecyclev1.LifecycleRun {
	return &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "edge-1"},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: "edge", PolicyName: "rules", PolicyGeneration: 1, Mode: lifecyclev1.ModeEnforce,
			Hook: lifecyclev1.BeforeClusterUpgrade, Attempt: 1, Steps: steps,
		},
	}
}

// begun is a run whose first step began at start.
func begun(s lifecyclev1.Step, change func(*lifecyclev1.StepProgress)) *lifecyclev1.LifecycleRun {
	run := newRun(s, apply("next"))
	progress := lifecyclev1.StepProgress{Name: s.Name, StartTime: metav1.NewTime(start)}
	if change != nil {
		change(&progress)
	}
	run.Spec.Progress = []lifecyclev1.StepProgress{progress}
	return run
}

func decide(run *lifecyclev1.LifecycleRun, decision lifecyclev1.DecisionType, name string) *lifecyclev1.LifecycleRun {
	run.Spec.Decisions = append(run.Spec.Decisions, lifecyclev1.Decision{Type: decision, Step: name, By: "alice", Time: metav1.NewTime(start), Reason: "because"})
	return run
}

func failedAt(at time.Duration, failures int32) func(*lifecyclev1.StepProgress) {
	return func(p *lifecyclev1.StepProgress) {
		p.Failures, p.LastFailureTime, p.Message = failures, metav1.NewTime(start.Add(at)), "refused"
	}
}

func ended(outcome lifecyclev1.StepOutcome) func(*lifecyclev1.StepProgress) {
	return func(p *lifecyclev1.StepProgress) {
		p.Outcome, p.EndTime, p.Message = outcome, metav1.NewTime(start), "refused"
	}
}

func running(p *lifecyclev1.StepProgress) {
	p.Job = &lifecyclev1.JobReference{Target: lifecyclev1.TargetManagement, Namespace: "ns", Name: "j", UID: "u"}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		retry *lifecyclev1.RetryPolicy
		want  []time.Duration // after 1, 2, 3 … failures
	}{
		{nil, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second}},
		{&lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To[int32](200)}, []time.Duration{200 * time.Second, 300 * time.Second, 300 * time.Second}},
		{&lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To[int32](3600)}, []time.Duration{time.Hour, time.Hour}},
		{&lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To[int32](600), MaxBackoffSeconds: ptr.To[int32](1000)}, []time.Duration{600 * time.Second, 1000 * time.Second}},
		{&lifecyclev1.RetryPolicy{MaxBackoffSeconds: ptr.To[int32](7)}, []time.Duration{5 * time.Second, 7 * time.Second}},
	} {
		for i, want := range c.want {
			s := apply("a")
			s.Retry = c.retry
			if got := plan.Backoff(&s, int32(i+1)); got != want {
				t.Errorf("%v: after %d failures the pause is %s, want %s", c.retry, i+1, got, want)
			}
		}
	}
}

func TestNext(t *testing.T) {
	fast := with(apply("a"), func(s *lifecyclev1.Step) {
		s.TimeoutSeconds = ptr.To[int32](100)
		s.Retry = &lifecyclev1.RetryPolicy{BackoffSeconds: ptr.To[int32](10), MaxBackoffSeconds: ptr.To[int32](60)}
	})
	goesOn := with(apply("a"), func(s *lifecyclev1.Step) { s.OnFailure = lifecyclev1.FailureContinue })
	audit := func(run *lifecyclev1.LifecycleRun) *lifecyclev1.LifecycleRun {
		run.Spec.Mode = lifecyclev1.ModeAudit
		return run
	}
	for _, c := range []struct {
		name  string
		run   *lifecyclev1.LifecycleRun
		after time.Duration // since start
		want  plan.Do
		step  string
		pause time.Duration
		phase lifecyclev1.RunPhase
	}{
		{name: "new", run: newRun(apply("a")), want: plan.Begin, step: "a", phase: lifecyclev1.RunPending},
		{name: "begun", run: begun(apply("a"), nil), want: plan.Execute, step: "a", phase: lifecyclev1.RunRunning},
		{name: "waits", run: begun(approval("a"), nil), want: plan.Execute, step: "a", phase: lifecyclev1.RunWaiting},
		{name: "next step", run: begun(apply("a"), ended(lifecyclev1.OutcomeSucceeded)), want: plan.Begin, step: "next", phase: lifecyclev1.RunRunning},
		{name: "skipped step", run: begun(apply("a"), ended(lifecyclev1.OutcomeSkipped)), want: plan.Begin, step: "next", phase: lifecyclev1.RunRunning},
		{name: "failed", run: begun(apply("a"), ended(lifecyclev1.OutcomeFailed)), want: plan.Nothing, step: "a", phase: lifecyclev1.RunFailed},
		{name: "failed, goes on", run: begun(goesOn, ended(lifecyclev1.OutcomeFailed)), want: plan.Begin, step: "next", phase: lifecyclev1.RunRunning},
		{name: "failed, audit", run: audit(begun(apply("a"), ended(lifecyclev1.OutcomeFailed))), want: plan.Begin, step: "next", phase: lifecyclev1.RunRunning},
		{name: "failed, retried", run: decide(begun(apply("a"), ended(lifecyclev1.OutcomeFailed)), lifecyclev1.DecisionRetry, "a"), want: plan.Restart, step: "a", phase: lifecyclev1.RunRunning},
		{name: "failed again after its retry", run: decide(begun(apply("a"), func(p *lifecyclev1.StepProgress) {
			ended(lifecyclev1.OutcomeFailed)(p)
			p.Attempt = 1
		}), lifecyclev1.DecisionRetry, "a"), want: plan.Nothing, step: "a", phase: lifecyclev1.RunFailed},
		{name: "failed, skipped", run: decide(begun(apply("a"), ended(lifecyclev1.OutcomeFailed)), lifecyclev1.DecisionSkip, "a"), want: plan.End, step: "a", phase: lifecyclev1.RunRunning},
		{name: "skipped while it waits", run: decide(begun(approval("a"), nil), lifecyclev1.DecisionSkip, "a"), want: plan.End, step: "a", phase: lifecyclev1.RunWaiting},
		{name: "another step's decision", run: decide(begun(approval("a"), nil), lifecyclev1.DecisionSkip, "next"), want: plan.Execute, step: "a", phase: lifecyclev1.RunWaiting},

		{name: "first pause", run: begun(fast, failedAt(time.Second, 1)), after: 4 * time.Second, want: plan.Pause, step: "a", pause: 7 * time.Second, phase: lifecyclev1.RunRunning},
		{name: "pause is over", run: begun(fast, failedAt(time.Second, 1)), after: 11 * time.Second, want: plan.Execute, step: "a", phase: lifecyclev1.RunRunning},
		{name: "third pause", run: begun(fast, failedAt(0, 3)), want: plan.Pause, step: "a", pause: 40 * time.Second, phase: lifecyclev1.RunRunning},
		{name: "longest pause", run: begun(fast, failedAt(0, 1000)), want: plan.Pause, step: "a", pause: time.Minute, phase: lifecyclev1.RunRunning},
		{name: "pause ends with the timeout", run: begun(fast, failedAt(90*time.Second, 9)), after: 90 * time.Second, want: plan.Pause, step: "a", pause: 10 * time.Second, phase: lifecyclev1.RunRunning},
		{name: "clock went back", run: begun(fast, failedAt(0, 1)), after: -24 * time.Hour, want: plan.Pause, step: "a", pause: 10 * time.Second, phase: lifecyclev1.RunRunning},

		{name: "just in time", run: begun(fast, nil), after: 99 * time.Second, want: plan.Execute, step: "a", phase: lifecyclev1.RunRunning},
		{name: "timed out", run: begun(fast, nil), after: 100 * time.Second, want: plan.End, step: "a", phase: lifecyclev1.RunRunning},
		{name: "default timeout", run: begun(apply("a"), nil), after: 600 * time.Second, want: plan.End, step: "a", phase: lifecyclev1.RunRunning},
		{name: "approvals have no timeout", run: begun(approval("a"), nil), after: 1000 * time.Hour, want: plan.Execute, step: "a", phase: lifecyclev1.RunWaiting},
		{name: "a running job gets a last look", run: begun(job("a"), running), after: time.Hour, want: plan.Execute, step: "a", phase: lifecyclev1.RunRunning},
		{name: "a job that is only intended does not", run: begun(job("a"), func(p *lifecyclev1.StepProgress) {
			running(p)
			p.Job.UID = ""
		}), after: time.Hour, want: plan.End, step: "a", phase: lifecyclev1.RunRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.run.DeepCopy()
			got := plan.Next(c.run, start.Add(c.after))
			if got.Do != c.want || got.Step == nil || got.Step.Name != c.step || got.After != c.pause {
				t.Errorf("got %+v", got)
			}
			if phase := plan.Phase(c.run); phase != c.phase {
				t.Errorf("phase is %s, want %s", phase, c.phase)
			}
			if !equal(before, c.run) {
				t.Error("the run was changed")
			}
		})
	}
}

func TestRunsEnd(t *testing.T) {
	run := begun(apply("a"), ended(lifecyclev1.OutcomeSucceeded))
	run.Spec.Steps = run.Spec.Steps[:1]
	if got := plan.Next(run, start); got.Do != plan.Nothing || plan.Phase(run) != lifecyclev1.RunSucceeded || !plan.Finished(run) {
		t.Errorf("all passed: got %+v, %s", got, plan.Phase(run))
	}
	run = newRun(apply("a"))
	run.Spec.Cancelled = "called off"
	if got := plan.Next(run, start); got.Do != plan.Nothing || plan.Phase(run) != lifecyclev1.RunCancelled || !plan.Finished(run) {
		t.Errorf("cancelled: got %+v, %s", got, plan.Phase(run))
	}
}

type unreached struct{ error }

func (unreached) Unreached() bool { return true }

func TestRecordAttempt(t *testing.T) {
	s := apply("a")
	for _, c := range []struct {
		name     string
		progress func(*lifecyclev1.StepProgress)
		mode     lifecyclev1.PolicyMode
		last     bool
		result   step.Result
		err      error
		changed  bool
		outcome  lifecyclev1.StepOutcome
		failures int32
		message  string
	}{
		{name: "waits", result: step.Result{Message: "not yet"}},
		{name: "done", result: step.Result{Done: true, Message: "applied 3"}, changed: true, outcome: lifecyclev1.OutcomeSucceeded, message: "applied 3"},
		{name: "audit", mode: lifecyclev1.ModeAudit, result: step.Result{Done: true, Message: "would"}, changed: true, outcome: lifecyclev1.OutcomeSkipped, message: "would"},
		{name: "failed", err: errors.New("no"), changed: true, failures: 1, message: "no"},
		{name: "failed for the last time but one", progress: failedAt(0, 4), err: errors.New("no"), changed: true, failures: 5, message: "no"},
		{name: "failed for the last time", progress: failedAt(0, 5), err: errors.New("no"), changed: true, outcome: lifecyclev1.OutcomeFailed, failures: 6, message: "no"},
		{name: "terminal", err: step.Terminal(errors.New("no"), "mend it"), changed: true, outcome: lifecyclev1.OutcomeFailed, failures: 1, message: "no; mend it"},
		{name: "out of reach", progress: failedAt(0, 5), err: unreached{errors.New("no answer")}, changed: true, failures: 5, message: "no answer"},
		{name: "too busy to answer", progress: failedAt(0, 5), err: apierrors.NewServiceUnavailable("starting"), changed: true, failures: 5, message: "starting"},
		{name: "out of reach as before", progress: func(p *lifecyclev1.StepProgress) { p.Message = "starting" }, err: apierrors.NewServiceUnavailable("starting"), message: "starting"},
		{name: "last look, out of reach", last: true, err: apierrors.NewServiceUnavailable("starting"), changed: true, outcome: lifecyclev1.OutcomeFailed, failures: 1, message: "not done within 10m0s of 2026-03-01T12:00:00Z: starting"},
		{name: "in reach again", progress: func(p *lifecyclev1.StepProgress) { p.Message = "starting" }, changed: true},
		{name: "well again", progress: failedAt(0, 5), changed: true},
		{name: "last look, done", last: true, result: step.Result{Done: true}, changed: true, outcome: lifecyclev1.OutcomeSucceeded},
		{name: "last look, not done", last: true, result: step.Result{Message: "1 of 2"}, changed: true, outcome: lifecyclev1.OutcomeFailed, message: "not done within 10m0s of 2026-03-01T12:00:00Z: 1 of 2"},
		{name: "last look fails", last: true, err: errors.New("no"), changed: true, outcome: lifecyclev1.OutcomeFailed, failures: 1, message: "not done within 10m0s of 2026-03-01T12:00:00Z: no"},
		{name: "long messages", err: errors.New(strings.Repeat("ü", 4000)), changed: true, failures: 1, message: strings.Repeat("ü", 2046) + "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := begun(s, c.progress)
			if c.mode != "" {
				run.Spec.Mode = c.mode
			}
			changed := plan.RecordAttempt(run, plan.Action{Do: plan.Execute, Step: &s, Last: c.last}, c.result, c.err, start.Add(time.Minute))
			got := run.Progress("a")
			if changed != c.changed || got.Outcome != c.outcome || got.Failures != c.failures || got.Message != c.message {
				t.Errorf("changed is %t, record %+v", changed, got)
			}
			if (got.Outcome != "") != got.EndTime.Equal(ptr.To(metav1.NewTime(start.Add(time.Minute)))) {
				t.Errorf("ended at %s", got.EndTime)
			}
		})
	}
}

func TestBlocksTellsWhatToDo(t *testing.T) {
	inWindow := begun(window("night"), ended(lifecyclev1.OutcomeSucceeded))
	inWindow.Spec.Steps = inWindow.Spec.Steps[:1]
	skippedSince := decide(inWindow.DeepCopy(), lifecyclev1.DecisionSkip, "night")
	skipped := begun(window("night"), ended(lifecyclev1.OutcomeSkipped))
	skipped.Spec.Steps = skipped.Spec.Steps[:1]
	after := newRun(apply("a"))
	after.Spec.Hook = lifecyclev1.AfterControlPlaneInitialized
	audit := newRun(apply("a"))
	audit.Spec.Mode = lifecyclev1.ModeAudit
	seen := begun(apply("a"), nil)
	seen.Status.Step, seen.Status.Report = "a", "2 of 3 applied"
	for _, c := range []struct {
		name   string
		run    *lifecyclev1.LifecycleRun
		at     time.Duration
		blocks bool
		tells  []string
	}{
		{"pending", newRun(apply("a")), 0, true, []string{"LifecyclePolicy rules, step a", "slipway-lifecycle runs"}},
		{"approval", begun(with(approval("go"), func(s *lifecyclev1.Step) { s.Approval.Message = "read the notes" }), nil), 0, true,
			[]string{"since 2026-03-01T12:00:00Z", "(read the notes)", "kubectl annotate lifecyclerun -n ns edge-1 lifecycle.slipway.dev/approve=go"}},
		{"failed", begun(apply("a"), ended(lifecyclev1.OutcomeFailed)), 0, true, []string{"failed at 2026-03-01T12:00:00Z: refused", "dev/retry=a", "dev/skip=a"}},
		{"repeated", begun(apply("a"), failedAt(0, 2)), 0, true, []string{"attempt 2 failed", "refused", "dev/skip=a"}},
		{"report", seen, 0, true, []string{"applies manifests since 2026-03-01T12:00:00Z: 2 of 3 applied"}},
		{"window", begun(window("night"), nil), 0, true, []string{`waits for the window "0 12 * * *" (Etc/UTC)`}},
		{"passed in its window", inWindow, 30 * time.Minute, false, nil},
		{"window closed since", inWindow, 60 * time.Minute, true, []string{"step night", "opens again at 2026-03-02T12:00:00Z", "dev/skip=night"}},
		{"window skipped since", skippedSince, 60 * time.Minute, false, nil},
		{"skipped window", skipped, 60 * time.Minute, false, nil},
		{"hook without waiting", after, 0, false, nil},
		{"audit", audit, 0, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			blocks, message := plan.Blocks(c.run, start.Add(c.at))
			if blocks != c.blocks || (message == "") == blocks {
				t.Errorf("got %t, %q", blocks, message)
			}
			for _, part := range c.tells {
				if !strings.Contains(message, part) {
					t.Errorf("%q does not tell %q", message, part)
				}
			}
			if _, later := plan.Blocks(c.run, start.Add(c.at+time.Second)); later != message {
				t.Errorf("the message changes with time: %q", later)
			}
		})
	}
}

func TestCancelReason(t *testing.T) {
	policy := &lifecyclev1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: "rules"}, Spec: lifecyclev1.LifecyclePolicySpec{
		Mode:            lifecyclev1.ModeEnforce,
		ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": "north"}},
		Hooks:           []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterUpgrade, Steps: []lifecyclev1.Step{apply("a")}}, {Hook: lifecyclev1.BeforeWorkersUpgrade, Steps: []lifecyclev1.Step{apply("a")}}},
	}}
	other := policy.DeepCopy()
	other.Spec.Hooks = other.Spec.Hooks[1:]
	deleting := policy.DeepCopy()
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(start))
	cluster := func(version string, deleting bool) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{"site": "north"}}}
		c.Spec.Topology.Version = version
		if deleting {
			c.DeletionTimestamp = ptr.To(metav1.NewTime(start))
		}
		return c
	}
	run := func(hook lifecyclev1.HookName, to string) *lifecyclev1.LifecycleRun {
		r := newRun(apply("a"))
		r.Spec.Hook, r.Spec.Request.ToKubernetesVersion = hook, to
		return r
	}
	done := begun(apply("a"), ended(lifecyclev1.OutcomeSucceeded))
	done.Spec.Steps = done.Spec.Steps[:1]
	succeeded := func(hook lifecyclev1.HookName, version string) *lifecyclev1.LifecycleRun {
		r := done.DeepCopy()
		r.Spec.Hook, r.Spec.Request = hook, lifecyclev1.RunRequest{ToKubernetesVersion: version}
		if strings.HasPrefix(string(hook), "After") {
			r.Spec.Request = lifecyclev1.RunRequest{KubernetesVersion: version}
		}
		return r
	}
	having := func(version string) func(*clusterv1.Cluster) *clusterv1.Cluster {
		return func(c *clusterv1.Cluster) *clusterv1.Cluster {
			c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: version, Replicas: 1}}}
			return c
		}
	}
	with35, with36 := having("v1.35.4"), having("v1.36.3")
	upgrading := func(c *clusterv1.Cluster) *clusterv1.Cluster {
		c.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: string(lifecyclev1.AfterClusterUpgrade)}
		return c
	}
	upgrade := run(lifecyclev1.BeforeClusterUpgrade, "v1.36.3")
	looks := upgrade.DeepCopy()
	looks.Spec.Mode = lifecyclev1.ModeAudit
	for _, c := range []struct {
		name    string
		run     *lifecyclev1.LifecycleRun
		policy  *lifecyclev1.LifecyclePolicy
		cluster *clusterv1.Cluster
		tells   string
	}{
		{"goes on", upgrade, policy, cluster("v1.36.3", false), ""},
		{"policy gone", upgrade, nil, cluster("v1.36.3", false), "LifecyclePolicy rules was deleted"},
		{"policy being deleted", upgrade, deleting, cluster("v1.36.3", false), "was deleted"},
		{"hook gone", upgrade, other, cluster("v1.36.3", false), "does not answer BeforeClusterUpgrade"},
		{"called off", upgrade, policy, cluster("v1.35.4", false), "called off: the Cluster asks for v1.35.4"},
		{"other version", upgrade, policy, cluster("v1.37.0", false), "called off"},
		{"on the way to a later version", run(lifecyclev1.BeforeWorkersUpgrade, "v1.36.3"), policy, cluster("v1.37.0", false), ""},
		{"enforced now", looks, policy, cluster("v1.36.3", false), "is enforced now"},
		{"workers called off", run(lifecyclev1.BeforeWorkersUpgrade, "v1.36.3"), policy, cluster("v1.35.4", false), "called off"},
		{"cluster being deleted", upgrade, policy, cluster("v1.36.3", true), "the Cluster is being deleted"},
		{"finished runs stay", done, nil, cluster("v1.35.4", true), ""},
		{"ended with the version", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), nil, cluster("v1.36.3", false), ""},
		{"called off after it had passed", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), policy, cluster("v1.35.4", false), "the upgrade to v1.36.3 was called off"},
		{"called off in the middle", succeeded(lifecyclev1.AfterControlPlaneUpgrade, "v1.36.3"), policy, cluster("v1.35.4", false), "the upgrade to v1.36.3 was called off"},
		{"went back long after", succeeded(lifecyclev1.AfterClusterUpgrade, "v1.36.3"), policy, with36(cluster("v1.35.4", false)), "called off"},
		{"replaced before it began", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), policy, with35(cluster("v1.37.0", false)), "called off: the Cluster asks for v1.37.0"},
		{"replaced after it began", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), policy, upgrading(with35(cluster("v1.37.0", false))), ""},
		{"the upgrade after it", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), policy, with36(cluster("v1.37.0", false)), ""},
		{"versions unknown after a move", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), policy, cluster("v1.37.0", false), ""},
		{"a version that cannot be read", succeeded(lifecyclev1.AfterWorkersUpgrade, "v1.36.3"), policy, cluster("latest", false), ""},
		{"no topology any more", succeeded(lifecyclev1.BeforeClusterUpgrade, "v1.36.3"), policy, cluster("", false), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := plan.CancelReason(c.run, c.policy, c.cluster, start)
			if (got == "") != (c.tells == "") || !strings.Contains(got, c.tells) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNoWorkload(t *testing.T) {
	cluster := func(ref bool, initialized bool, said metav1.ConditionStatus, since time.Duration) *clusterv1.Cluster {
		c := &clusterv1.Cluster{}
		if ref {
			c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "K", Name: "n"}
		}
		if initialized {
			c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		}
		if said != "" {
			c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: said, LastTransitionTime: metav1.NewTime(start.Add(-since))}}
		}
		return c
	}
	deleted := newRun(apply("a"))
	deleted.Spec.Hook = lifecyclev1.BeforeClusterDelete
	apply, management := apply("a"), job("j")
	for _, c := range []struct {
		name    string
		run     *lifecyclev1.LifecycleRun
		step    *lifecyclev1.Step
		cluster *clusterv1.Cluster
		skips   bool
	}{
		{"nothing of it exists", deleted, &apply, cluster(false, false, "", 0), true},
		{"never initialized", deleted, &apply, cluster(true, false, metav1.ConditionFalse, time.Hour), true},
		{"initialized", deleted, &apply, cluster(true, true, metav1.ConditionTrue, time.Hour), false},
		{"status lost", deleted, &apply, cluster(true, false, "", 0), false},
		{"just moved", deleted, &apply, cluster(true, false, metav1.ConditionFalse, time.Minute), false},
		{"unknown", deleted, &apply, cluster(true, false, metav1.ConditionUnknown, time.Hour), false},
		{"works elsewhere", deleted, &management, cluster(false, false, "", 0), false},
		{"other hook", newRun(apply), &apply, cluster(false, false, "", 0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := plan.NoWorkload(c.run, c.step, c.cluster, start); (got != "") != c.skips {
				t.Errorf("got %q", got)
			}
		})
	}
	if step.FactsOf(&lifecyclev1.Step{Job: &lifecyclev1.JobStep{Target: lifecyclev1.TargetWorkload}}).Workload == "" {
		t.Error("a job on the workload cluster")
	}
}

func TestARestartIsOneRecordThatAnswersAllRetries(t *testing.T) {
	run := begun(apply("a"), ended(lifecyclev1.OutcomeFailed))
	decide(run, lifecyclev1.DecisionRetry, "a")
	decide(run, lifecyclev1.DecisionRetry, "a")
	later := start.Add(time.Hour)
	plan.Apply(run, plan.Next(run, later), later)
	if len(run.Spec.Progress) != 1 {
		t.Fatalf("records are %+v", run.Spec.Progress)
	}
	want := lifecyclev1.StepProgress{Name: "a", StartTime: metav1.NewTime(later), Attempt: 2}
	if got := run.Spec.Progress[0]; !equal(got, want) {
		t.Errorf("the record is %+v", got)
	}
	ended(lifecyclev1.OutcomeFailed)(&run.Spec.Progress[0])
	if got := plan.Next(run, later); got.Do != plan.Nothing {
		t.Errorf("is restarted without another decision: %+v", got)
	}
}

func TestAClockThatWentBackCountsAsNoTime(t *testing.T) {
	s := apply("a")
	left, limited := plan.TimeLeft(begun(s, nil), &s, start.Add(-24*time.Hour))
	if !limited || left != step.Timeout(&s) {
		t.Errorf("%s left, limited is %t", left, limited)
	}
}

// Paths and queries of URLs are secrets of many services.
func TestExplainTellsOnlyTheHostOfAnEndpoint(t *testing.T) {
	run := begun(lifecyclev1.Step{Name: "a", Webhook: &lifecyclev1.WebhookStep{URL: "https://ci.example.com:8443/hooks/T0K3N?token=s3cr3t"}}, nil)
	_, message := plan.Blocks(run, start)
	if !strings.Contains(message, "calls https://ci.example.com:8443 since") || strings.Contains(message, "T0K3N") || strings.Contains(message, "s3cr3t") {
		t.Errorf("tells %q", message)
	}
}
