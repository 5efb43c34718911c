package run_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

func (w *world) lifecycleReady() *metav1.Condition {
	w.t.Helper()
	key := client.ObjectKeyFromObject(w.cluster)
	if _, err := (&run.ClusterReconciler{Client: env.Client, Clock: w.clock}).Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
		w.t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{}
	if err := env.Client.Get(ctx, key, cluster); err != nil {
		w.t.Fatal(err)
	}
	if conditions.Get(cluster, "Other") == nil {
		w.t.Error("the condition of somebody else was dropped")
	}
	return conditions.Get(cluster, lifecyclev1.ClusterLifecycleReadyCondition)
}

func TestLifecycleReadyTellsWhatAClusterWaitsFor(t *testing.T) {
	w := newWorld(t, upgrade, approvalStep(), applyStep("cni"))
	conditions.Set(w.cluster, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "Other"})
	if err := env.Client.Status().Update(ctx, w.cluster); err != nil {
		t.Fatal(err)
	}
	check := func(status metav1.ConditionStatus, reason string, tells ...string) {
		t.Helper()
		got := w.lifecycleReady()
		if got == nil || got.Status != status || got.Reason != reason {
			t.Fatalf("got %+v", got)
		}
		for _, part := range tells {
			if !strings.Contains(got.Message, part) {
				t.Errorf("%q does not tell %q", got.Message, part)
			}
		}
	}
	w.expect(lifecyclev1.RunWaiting, "go", "")
	check(metav1.ConditionFalse, lifecyclev1.ClusterLifecycleWaitingReason, "BeforeClusterUpgrade: LifecyclePolicy rules, step go: waits since", "dev/approve=go")
	w.effects.fail = map[string]error{"cni": step.Terminal(errRefused, "")}
	w.decide(lifecyclev1.DecisionApprove, "go")
	w.expect(lifecyclev1.RunFailed, "cni", "")
	check(metav1.ConditionFalse, lifecyclev1.ClusterLifecycleFailedReason, "connection refused", "dev/retry=cni")
	w.decide(lifecyclev1.DecisionSkip, "cni")
	w.expect(lifecyclev1.RunSucceeded, "", "")
	check(metav1.ConditionTrue, lifecyclev1.ClusterLifecycleReadyReason)
	if err := env.Client.Delete(ctx, w.run()); err != nil {
		t.Fatal(err)
	}
	if got := w.lifecycleReady(); got != nil {
		t.Errorf("without runs: %+v", got)
	}
}

// A window that closes after all steps are done holds the Cluster back, and the
// condition tells: when it closes and when it opens, without a change of anything.
func TestLifecycleReadyTellsOfAWindowThatClosed(t *testing.T) {
	w := newWorld(t, upgrade, applyStep("cni"))
	w.cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: []clusterv1.StatusUpgradePlanVersion{{Version: "v1.36.3"}}}
	if err := env.Client.Status().Update(ctx, w.cluster); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	passed := w.run()
	passed.Spec.Steps = []lifecyclev1.Step{{Name: "noon", Window: &lifecyclev1.WindowStep{Schedule: "0 12 * * *", DurationSeconds: 3600}}}
	passed.Spec.Progress = []lifecyclev1.StepProgress{{
		Name: "noon", StartTime: metav1.NewTime(noon), EndTime: metav1.NewTime(noon), Outcome: lifecyclev1.OutcomeSucceeded,
	}}
	if err := env.Client.Update(ctx, passed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		now    time.Time
		status metav1.ConditionStatus
		tells  string
		again  time.Duration
	}{
		{noon.Add(20 * time.Minute), metav1.ConditionTrue, "", 40 * time.Minute},
		{noon.Add(time.Hour), metav1.ConditionFalse, "step noon: the window closed before the other steps were done; it opens again at 2026-03-02T12:00:00Z", 23 * time.Hour},
		{noon.Add(24 * time.Hour), metav1.ConditionTrue, "", time.Hour},
	} {
		w.clock.SetTime(c.now)
		result, err := (&run.ClusterReconciler{Client: env.Client, Clock: w.clock}).Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster)})
		if err != nil || result.RequeueAfter != c.again {
			t.Fatalf("at %s: %+v, %v", c.now, result, err)
		}
		cluster := &clusterv1.Cluster{}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(w.cluster), cluster); err != nil {
			t.Fatal(err)
		}
		if got := conditions.Get(cluster, lifecyclev1.ClusterLifecycleReadyCondition); got == nil || got.Status != c.status || !strings.Contains(got.Message, c.tells) {
			t.Errorf("at %s: %+v", c.now, got)
		}
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t, upgrade, approvalStep())
	w.expect(lifecyclev1.RunWaiting, "go", "")
	w.clock.Step(90 * time.Second)
	reader := client.NewNamespacedClient(env.Client, w.key.Namespace)
	for _, collector := range run.Collectors(reader, w.clock) {
		if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	}
	described := run.Collectors(reader, w.clock)[2]
	want := `
# HELP slipway_lifecycle_blocked_seconds How long the current step of a run has held its cluster back.
# TYPE slipway_lifecycle_blocked_seconds gauge
slipway_lifecycle_blocked_seconds{cluster="edge",hook="BeforeClusterUpgrade",namespace="NS",policy="rules",step="go"} 90
# HELP slipway_lifecycle_runs LifecycleRuns by policy, hook and phase.
# TYPE slipway_lifecycle_runs gauge
slipway_lifecycle_runs{hook="BeforeClusterUpgrade",namespace="NS",phase="Waiting",policy="rules"} 1
`
	if err := testutil.CollectAndCompare(described, strings.NewReader(strings.ReplaceAll(want, "NS", w.key.Namespace))); err != nil {
		t.Error(err)
	}
}
