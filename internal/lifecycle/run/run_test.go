package run_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
)

const upgrade = lifecyclev1.BeforeClusterUpgrade

func TestStepsAreExecutedInTheirOrder(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("first"), approvalStep(), jobStep("smoke"), applyStep("last"))
	got := w.expect(lifecyclev1.RunWaiting, "go", "waits since")
	if !strings.Contains(got.Status.Message, "lifecycle.slipway.dev/approve=go") || got.Status.WaitingSince.IsZero() {
		t.Errorf("status is %+v", got.Status)
	}
	w.decide(lifecyclev1.DecisionApprove, "go")
	got = w.expect(lifecyclev1.RunSucceeded, "", "4 of 4 steps succeeded")
	if want := []string{"first", "smoke", "smoke", "smoke", "last"}; !slices.Equal(w.effects.executed, want) {
		t.Errorf("executed %v, want %v", w.effects.executed, want)
	}
	if p := got.Progress("go"); p.Outcome != lifecyclev1.OutcomeSucceeded || !strings.HasPrefix(p.Message, "approved by alice") {
		t.Errorf("record of the approval: %+v", p)
	}
	if !meta.IsStatusConditionTrue(got.Status.Conditions, lifecyclev1.CompletedCondition) {
		t.Errorf("conditions are %+v", got.Status.Conditions)
	}
	for _, want := range []string{"LifecycleRun StepBegan", "Cluster StepSucceeded", "LifecycleRun RunSucceeded", "Cluster RunSucceeded"} {
		if !slices.Contains(w.events.notes, want) {
			t.Errorf("no event %q in %v", want, w.events.notes)
		}
	}
	again, result := w.reconcile()
	if again.ResourceVersion != got.ResourceVersion || result.RequeueAfter != 0 {
		t.Error("a finished run is written again")
	}
}

func TestFailedAttemptsAreRepeatedWithBackoff(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni", func(s *lifecyclev1.Step) {
		s.Retry = &lifecyclev1.RetryPolicy{Limit: ptr.To[int32](2), BackoffSeconds: ptr.To[int32](10)}
	}))
	w.effects.fail = map[string]error{"cni": errRefused}
	for attempt, wait := range []time.Duration{10 * time.Second, 20 * time.Second} {
		got, result := w.reconcile()
		if p := got.Progress("cni"); p.Failures != int32(attempt+1) || result.RequeueAfter != wait {
			t.Fatalf("after attempt %d: %+v, looks again after %s", attempt+1, p, result.RequeueAfter)
		}
		if !got.Status.NextAttemptTime.Equal(ptr.To(metav1.NewTime(w.clock.Now().Add(wait)))) {
			t.Errorf("next attempt at %s", got.Status.NextAttemptTime)
		}
		w.clock.Step(wait - time.Second)
		w.reconcile()
		if len(w.effects.executed) != attempt+1 {
			t.Fatalf("executed %d times before the pause was over", len(w.effects.executed))
		}
		w.clock.Step(time.Second)
	}
	w.expect(lifecyclev1.RunFailed, "cni", "failed at")
	w.clock.Step(time.Hour)
	w.expect(lifecyclev1.RunFailed, "cni", "lifecycle.slipway.dev/retry=cni")
	if len(w.effects.executed) != 3 {
		t.Errorf("executed %d times", len(w.effects.executed))
	}

	w.effects.fail = nil
	w.decide(lifecyclev1.DecisionRetry, "cni")
	got := w.expect(lifecyclev1.RunSucceeded, "", "1 of 1 steps succeeded")
	if p := got.Progress("cni"); p.Attempt != 1 || p.Failures != 0 {
		t.Errorf("record is %+v", p)
	}
}

func TestTerminalFailuresAreNotRepeated(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.effects.fail = map[string]error{"cni": step.Terminal(errRefused, "ask the network team")}
	w.expect(lifecyclev1.RunFailed, "cni", "ask the network team")
	w.decide(lifecyclev1.DecisionSkip, "cni")
	got := w.expect(lifecyclev1.RunSucceeded, "", "1 skipped")
	if p := got.Progress("cni"); p.Message != "skipped by alice: because" {
		t.Errorf("record is %+v", p)
	}
}

func TestContinueGoesOnAfterAFailure(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni", func(s *lifecyclev1.Step) { s.OnFailure = lifecyclev1.FailureContinue }), applyStep("last"))
	w.effects.fail = map[string]error{"cni": step.Terminal(errRefused, "")}
	w.expect(lifecyclev1.RunSucceeded, "", "1 of 2 steps succeeded, 1 failed")
}

func TestTimeouts(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni", func(s *lifecyclev1.Step) { s.TimeoutSeconds = ptr.To[int32](15) }))
	w.effects.wait = map[string]bool{"cni": true}
	if _, result := w.reconcile(); result.RequeueAfter != 10*time.Second {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
	w.expect(lifecyclev1.RunRunning, "cni", "1 of 2")
	w.clock.Step(10 * time.Second)
	if _, result := w.reconcile(); result.RequeueAfter != 5*time.Second {
		t.Errorf("looks again after %s, its time is over after 5s", result.RequeueAfter)
	}
	w.clock.Step(-time.Hour)
	w.expect(lifecyclev1.RunRunning, "cni", "1 of 2")
	w.clock.Step(time.Hour + 5*time.Second)
	w.expect(lifecyclev1.RunFailed, "cni", "not done within 15s")
}

func TestAJobThatEndedWhileNobodyLookedHasNotTimedOut(t *testing.T) {
	w := newWorld(t, upgrade, jobStep("smoke"))
	w.effects.wait = map[string]bool{"smoke": true}
	w.expect(lifecyclev1.RunRunning, "smoke", "runs")
	w.effects.wait = nil
	w.clock.Step(24 * time.Hour)
	w.expect(lifecyclev1.RunSucceeded, "", "1 of 1 steps succeeded")
}

func TestAJobThatNobodyWaitsForAnyMoreIsStopped(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*world)
		phase lifecyclev1.RunPhase
		step  string
	}{
		{"skipped", func(w *world) { w.decide(lifecyclev1.DecisionSkip, "smoke") }, lifecyclev1.RunSucceeded, ""},
		{"timed out", func(w *world) { w.clock.Step(time.Hour) }, lifecyclev1.RunFailed, "smoke"},
		{"out of reach", func(w *world) {
			w.effects.fail = map[string]error{"smoke": step.Terminal(errRefused, "")}
			w.clock.Step(10 * time.Second)
		}, lifecyclev1.RunFailed, "smoke"},
		{"only looked at from now on", func(w *world) {
			w.change(w.policy, func() { w.policy.Spec.Mode = lifecyclev1.ModeAudit })
			w.effects.wait = nil
		}, lifecyclev1.RunSucceeded, ""},
		{"cancelled", func(w *world) {
			w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" })
		}, lifecyclev1.RunCancelled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, upgrade, jobStep("smoke"))
			w.effects.wait = map[string]bool{"smoke": true}
			w.expect(lifecyclev1.RunRunning, "smoke", "runs")
			c.end(w)
			// What cannot be stopped holds nothing up.
			w.effects.stuck = errRefused
			w.expect(c.phase, c.step, "")
			if !slices.Equal(w.effects.stopped, []string{"smoke"}) {
				t.Errorf("stopped %v", w.effects.stopped)
			}
			if message := w.run().Progress("smoke").Message; c.phase != lifecyclev1.RunCancelled && !strings.Contains(message, "could not be stopped: connection refused") {
				t.Errorf("message %q", message)
			}
		})
	}
}

// Whoever calls an upgrade off relies on its Jobs to end, so the run goes on looking until
// the engine may end them.
func TestRunIsNotCancelledBeforeItsJobMayBeStopped(t *testing.T) {
	w := newWorld(t, upgrade, jobStep("smoke"))
	w.effects.wait = map[string]bool{"smoke": true}
	w.expect(lifecyclev1.RunRunning, "smoke", "runs")
	w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" })
	w.effects.stuck = &rights.MissingError{User: "engine", Rights: []rights.Right{{Namespace: "default", Verb: "delete", Group: "batch", Resource: "jobs"}}}
	w.expect(lifecyclev1.RunRunning, "smoke", "called off")
	if _, result := w.reconcile(); result.RequeueAfter == 0 {
		t.Error("nobody looks again")
	}
	w.effects.stuck = nil
	w.expect(lifecyclev1.RunCancelled, "", "called off")
}

func TestRunsAreCancelled(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*world)
		tells  string
	}{
		{"policy deleted", func(w *world) {
			if err := env.Client.Delete(ctx, w.policy); err != nil {
				w.t.Fatal(err)
			}
		}, "LifecyclePolicy rules was deleted"},
		{"hook dropped", func(w *world) {
			w.change(w.policy, func() { w.policy.Spec.Hooks[0].Hook = lifecyclev1.AfterClusterUpgrade })
		}, "does not answer BeforeClusterUpgrade"},
		{"not selected", func(w *world) {
			w.change(w.policy, func() {
				w.policy.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "south"}}
			})
		}, "does not select"},
		{"not matched", func(w *world) {
			w.change(w.policy, func() { w.policy.Spec.MatchCondition = `cluster.metadata.name == "other"` })
		}, "matchCondition"},
		{"called off", func(w *world) {
			w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" })
		}, "called off"},
		{"cluster deleted", func(w *world) {
			w.change(w.cluster, func() { w.cluster.Finalizers = []string{"test.slipway.dev/hold"} })
			if err := env.Client.Delete(ctx, w.cluster); err != nil {
				w.t.Fatal(err)
			}
		}, "the Cluster is being deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, upgrade, approvalStep(), applyStep("last"))
			w.expect(lifecyclev1.RunWaiting, "go", "")
			c.change(w)
			got := w.expect(lifecyclev1.RunCancelled, "", c.tells)
			if !strings.Contains(got.Spec.Cancelled, c.tells) || !slices.Contains(w.events.notes, "Cluster RunCancelled") {
				t.Errorf("cancelled is %q, events %v", got.Spec.Cancelled, w.events.notes)
			}
			w.expect(lifecyclev1.RunCancelled, "", c.tells)
		})
	}
}

func TestAMatchConditionThatFailsHoldsOn(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.change(w.policy, func() { w.policy.Spec.MatchCondition = `cluster.spec.nothing == "x"` })
	w.expect(lifecyclev1.RunPending, "cni", "no such key: nothing; correct it, for example with has()")
	w.change(w.policy, func() { w.policy.Spec.MatchCondition = `cluster.metadata.name == "edge"` })
	w.expect(lifecyclev1.RunSucceeded, "", "")
}

func TestEditedPoliciesAreAdopted(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("first"), approvalStep())
	w.expect(lifecyclev1.RunWaiting, "go", "read the notes")
	w.change(w.policy, func() {
		w.policy.Spec.Hooks[0].Steps[1].Approval.Message = "read the new notes"
		w.policy.Spec.Hooks[0].Steps = append(w.policy.Spec.Hooks[0].Steps, applyStep("last"))
	})
	got := w.expect(lifecyclev1.RunWaiting, "go", "read the new notes")
	if len(got.Spec.Steps) != 3 || got.Spec.PolicyGeneration != w.policy.Generation {
		t.Errorf("spec is %+v", got.Spec)
	}
	w.decide(lifecyclev1.DecisionApprove, "go")
	w.expect(lifecyclev1.RunSucceeded, "", "3 of 3 steps succeeded")
	if !slices.Equal(w.effects.executed, []string{"first", "last"}) {
		t.Errorf("executed %v", w.effects.executed)
	}
}

// hourStep is a window of the hour that begins now.
func (w *world) hourStep() lifecyclev1.Step {
	now := w.clock.Now().UTC()
	return lifecyclev1.Step{Name: "hour", Window: &lifecyclev1.WindowStep{Schedule: fmt.Sprintf("%d %d * * *", now.Minute(), now.Hour()), DurationSeconds: 3600}}
}

// asked has Cluster API go on asking the hook of the run.
func (w *world) asked() {
	w.t.Helper()
	before := w.cluster.DeepCopy()
	w.cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		Versions:    []clusterv1.StatusVersion{{Version: "v1.35.4", Replicas: 1}},
		UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.36.3"}},
	}
	if err := env.Client.Status().Patch(ctx, w.cluster, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// missedWindow is the world of a run that has succeeded, whose window closed before its
// hook passed.
func missedWindow(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, upgrade, approvalStep())
	w.asked()
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps = []lifecyclev1.Step{w.hourStep(), approvalStep()} })
	w.expect(lifecyclev1.RunWaiting, "go", "")
	w.decide(lifecyclev1.DecisionApprove, "go")
	w.expect(lifecyclev1.RunSucceeded, "", "")
	closes := w.clock.Now().Truncate(time.Minute).Add(time.Hour)
	if _, result := w.reconcile(); result.RequeueAfter != closes.Sub(w.clock.Now()) {
		t.Fatalf("looks again after %s, the window closes at %s", result.RequeueAfter, closes)
	}
	w.clock.Step(2 * time.Hour)
	if _, result := w.reconcile(); result.RequeueAfter < 20*time.Hour || result.RequeueAfter > 24*time.Hour {
		t.Fatalf("looks again after %s, want when the window opens again", result.RequeueAfter)
	}
	return w
}

func (w *world) holds() bool {
	w.t.Helper()
	holds, _, _ := plan.Holds(w.run(), w.cluster, w.clock.Now())
	return holds
}

func TestAnEditedPolicyCountsAfterItsWindowWasMissed(t *testing.T) {
	w := missedWindow(t)
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps[0] = w.hourStep() })
	if !w.holds() {
		t.Fatal("nothing holds the hook back")
	}
	got := w.expect(lifecyclev1.RunSucceeded, "", "2 of 2 steps succeeded")
	if w.holds() || !slices.Contains(w.events.notes, "Cluster PolicyAdopted") || got.Progress("go") == nil {
		t.Errorf("the run is %+v, events %v", got.Spec, w.events.notes)
	}
	w = missedWindow(t)
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps = w.policy.Spec.Hooks[0].Steps[1:] })
	if w.expect(lifecyclev1.RunSucceeded, "", "1 of 1 steps succeeded"); w.holds() {
		t.Error("a window that the policy does not have any more holds the hook back")
	}
}

func TestAMissedWindowIsSkipped(t *testing.T) {
	w := missedWindow(t)
	w.decide(lifecyclev1.DecisionSkip, "hour")
	got, result := w.reconcile()
	if w.holds() || result.RequeueAfter != 0 {
		t.Errorf("after the skip: holds %t, looks again after %s", w.holds(), result.RequeueAfter)
	}
	// What the policy says later comes too late: the hook passes now.
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps[0] = w.hourStep() })
	if again, _ := w.reconcile(); again.ResourceVersion != got.ResourceVersion {
		t.Errorf("the run was changed: %+v", again.Spec)
	}
}

func TestAPolicyThatIsGoneHoldsNoHookBackForItsWindow(t *testing.T) {
	w := missedWindow(t)
	if err := env.Client.Delete(ctx, w.policy); err != nil {
		t.Fatal(err)
	}
	w.expect(lifecyclev1.RunCancelled, "", "LifecyclePolicy rules was deleted")
}

// What was approved for an upgrade that was called off must not count for the next one,
// also when its hook had passed.
func TestASucceededRunIsCancelledWithItsUpgrade(t *testing.T) {
	w := newWorld(t, upgrade, approvalStep())
	w.expect(lifecyclev1.RunWaiting, "go", "")
	w.decide(lifecyclev1.DecisionApprove, "go")
	w.expect(lifecyclev1.RunSucceeded, "", "")
	w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" })
	got := w.expect(lifecyclev1.RunCancelled, "", "the upgrade to v1.36.3 was called off: the Cluster asks for v1.35.4")
	if got.Progress("go") == nil || len(got.Spec.Decisions) != 1 {
		t.Errorf("the record is lost: %+v", got.Spec)
	}
}

func TestAFailedStepIsRetriedAsThePolicySaysNow(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.effects.fail = map[string]error{"cni": step.Terminal(errRefused, "")}
	w.expect(lifecyclev1.RunFailed, "cni", "")
	w.effects.fail = nil
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps[0].Apply.Sources[0].Name = "corrected" })
	w.expect(lifecyclev1.RunFailed, "cni", "retry")
	w.decide(lifecyclev1.DecisionRetry, "cni")
	got := w.expect(lifecyclev1.RunSucceeded, "", "")
	if name := got.Spec.Steps[0].Apply.Sources[0].Name; name != "corrected" {
		t.Errorf("applied %s", name)
	}
}

func TestNothingHappensWhileTheClusterIsPaused(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.change(w.cluster, func() { w.cluster.Spec.Paused = ptr.To(true) })
	// clusterctl move brings the policy later.
	if err := env.Client.Delete(ctx, w.policy); err != nil {
		t.Fatal(err)
	}
	w.expect(lifecyclev1.RunPending, "cni", "the Cluster is paused")
	w.policy.ResourceVersion, w.policy.UID = "", ""
	w.create(w.policy)
	w.change(w.cluster, func() { w.cluster.Spec.Paused = nil })
	w.expect(lifecyclev1.RunSucceeded, "", "")
}

func TestARunOfAnotherClusterOfThatNameIsLeftAlone(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	got := w.run()
	got.OwnerReferences[0].UID = types.UID("another")
	if err := env.Client.Update(ctx, got); err != nil {
		t.Fatal(err)
	}
	w.expect(lifecyclev1.RunPending, "cni", "its Cluster is gone")
	if len(w.effects.executed) != 0 {
		t.Errorf("executed %v", w.effects.executed)
	}
}

func TestStatusIsRebuiltFromTheSpec(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("first"), approvalStep())
	before := w.expect(lifecyclev1.RunWaiting, "go", "")
	lost := before.DeepCopy()
	lost.Status = lifecyclev1.LifecycleRunStatus{}
	if err := env.Client.Status().Patch(ctx, lost, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if lost.Status.Phase != "" {
		t.Fatal("the status was not lost")
	}
	after := w.expect(lifecyclev1.RunWaiting, "go", before.Status.Message)
	if !after.Status.WaitingSince.Equal(&before.Status.WaitingSince) {
		t.Errorf("waits since %s, before %s", after.Status.WaitingSince, before.Status.WaitingSince)
	}
	if !slices.Equal(w.effects.executed, []string{"first"}) {
		t.Errorf("executed %v", w.effects.executed)
	}
}

func TestStepsWithoutAWorkloadClusterAreSkippedBeforeDeletion(t *testing.T) {
	w := newWorld(t, lifecyclev1.BeforeClusterDelete, applyStep("cleanup"), jobStep("notify"))
	got := w.expect(lifecyclev1.RunSucceeded, "", "1 of 2 steps succeeded, 1 skipped")
	if p := got.Progress("cleanup"); p.Outcome != lifecyclev1.OutcomeSkipped || !strings.Contains(p.Message, "no workload cluster") {
		t.Errorf("record is %+v", p)
	}
	// The status of a Cluster that was moved is not there yet.
	w = newWorld(t, lifecyclev1.BeforeClusterDelete, applyStep("cleanup"))
	w.change(w.cluster, func() {
		w.cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g.example.com", Kind: "K", Name: "n"}
	})
	w.effects.fail = map[string]error{"cleanup": errRefused}
	got = w.expect(lifecyclev1.RunRunning, "cleanup", "attempt 1 failed")
	if got.Progress("cleanup").Outcome != "" {
		t.Errorf("record is %+v", got.Progress("cleanup"))
	}
}

func TestUnknownKindsFail(t *testing.T) {
	w := newWorld(t, upgrade, lifecyclev1.Step{Name: "call", Webhook: &lifecyclev1.WebhookStep{URL: "https://a.example.com", SecretName: "s"}})
	w.KindOf = func(*lifecyclev1.Step) step.Kind { return step.Of(&lifecyclev1.Step{}) }
	w.expect(lifecyclev1.RunFailed, "call", "update slipway-lifecycle")
}

func TestAuditNeverHoldsOn(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"), approvalStep())
	w.change(w.policy, func() { w.policy.Spec.Mode = lifecyclev1.ModeAudit })
	w.effects.fail = map[string]error{"cni": step.Terminal(errRefused, "")}
	got := w.expect(lifecyclev1.RunSucceeded, "", "1 skipped, 1 failed")
	if p := got.Progress("go"); p.Message != "would wait for approval" {
		t.Errorf("record is %+v", p)
	}
}

func TestAPolicyIsNotGoneBecauseTheCacheIsLate(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.Client = interceptor.NewClient(env.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, policy := obj.(*lifecyclev1.LifecyclePolicy); policy {
				return apierrors.NewNotFound(lifecyclev1.GroupVersion.WithResource("lifecyclepolicies").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	w.expect(lifecyclev1.RunSucceeded, "", "1 of 1 steps succeeded")
}

func TestAWaitingStepIsLeftAloneUntilItsTime(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.effects.wait = map[string]bool{"cni": true}
	attempts := func(want int, why string) {
		t.Helper()
		if got := w.expect(lifecyclev1.RunRunning, "cni", "1 of 2"); got.Status.Report != "1 of 2" {
			t.Errorf("report is %q", got.Status.Report)
		}
		if len(w.effects.executed) != want {
			t.Fatalf("%d attempts, want %d: %s", len(w.effects.executed), want, why)
		}
	}
	attempts(1, "the first")
	attempts(1, "woken by what it wrote itself")
	w.change(w.cluster, func() { w.cluster.Labels["other"] = "label" })
	w.clock.Step(9 * time.Second)
	attempts(1, "woken by the Cluster")
	w.clock.Step(time.Second)
	attempts(2, "its time has come")
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps[0].Apply.Sources[0].Name = "other" })
	attempts(3, "another policy")
	w.clock.Step(-time.Hour)
	attempts(4, "the clock went back")
	w.Reconciler = w.reconciler(env.Client)
	attempts(5, "another controller")
}

// TestAnOutageLastsAsLongAsTheStepMayTake: a workload cluster that does not answer is no
// failed attempt, and is asked less and less often until Cluster API has reached it.
func TestAnOutageLastsAsLongAsTheStepMayTake(t *testing.T) {
	down := &workload.UnavailableError{Problem: "its API server does not answer", Remedy: "look at its control plane"}
	for _, s := range []lifecyclev1.Step{applyStep("cni"), jobStep("cni")} {
		t.Run(step.Of(&s).Name(), func(t *testing.T) {
			s.TimeoutSeconds = ptr.To[int32](1800)
			w := newWorld(t, upgrade, s)
			w.effects.fail = map[string]error{"cni": down}
			began := w.clock.Now()
			for _, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
				got, result := w.reconcile()
				if result.RequeueAfter != wait*time.Second || got.Progress("cni").Outcome != "" || !strings.Contains(got.Status.Message, "does not answer; look at") {
					t.Fatalf("after %s: looks again after %s, want %d s, %+v", w.clock.Since(began), result.RequeueAfter, wait, got.Status)
				}
				if next := w.clock.Now().Add(result.RequeueAfter); !got.Status.NextAttemptTime.Time.Equal(next) {
					t.Errorf("next attempt at %s, want %s", got.Status.NextAttemptTime, next)
				}
				w.clock.Step(result.RequeueAfter)
			}
			attempts := len(w.effects.executed)
			w.reconcile()
			w.connection(metav1.ConditionFalse)
			w.clock.Step(time.Second)
			w.reconcile()
			if got := len(w.effects.executed) - attempts; got != 1 {
				t.Fatalf("%d attempts, want 1: nobody reaches it", got)
			}
			w.connection(metav1.ConditionTrue)
			w.reconcile()
			w.reconcile()
			if got := len(w.effects.executed) - attempts; got != 2 {
				t.Fatalf("%d attempts, want 2: Cluster API reaches it again", got)
			}
			w.clock.Step(1800*time.Second - w.clock.Since(began))
			got := w.expect(lifecyclev1.RunFailed, "cni", "not done within 30m0s")
			if message := got.Progress("cni").Message; !strings.Contains(message, "does not answer") {
				t.Errorf("message %q", message)
			}
		})
	}
}

// connection is what Cluster API says of the connection to the workload cluster.
func (w *world) connection(status metav1.ConditionStatus) {
	w.t.Helper()
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(w.cluster), w.cluster); err != nil {
		w.t.Fatal(err)
	}
	before := w.cluster.DeepCopy()
	conditions.Set(w.cluster, metav1.Condition{
		Type: clusterv1.ClusterRemoteConnectionProbeCondition, Status: status, Reason: "Tested", LastTransitionTime: metav1.NewTime(w.clock.Now()),
	})
	if err := env.Client.Status().Patch(ctx, w.cluster, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}
