package admission_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// awaitList waits until the engine's cache has the policies of a namespace: warnings
// look there.
func awaitList(t *testing.T, namespace string, count int) {
	t.Helper()
	err := apiwait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		list := &lifecyclev1.LifecyclePolicyList{}
		err := cached.List(ctx, list, client.InNamespace(namespace))
		return len(list.Items) == count, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// decider has all verbs on policies.
func decider(t *testing.T, namespace, name string, verbs ...string) client.Client {
	t.Helper()
	return user(t, namespace, name,
		allow(lifecyclev1.GroupVersion.Group, "lifecycleruns", "get", "patch", "update", "create"),
		rbacv1.PolicyRule{APIGroups: []string{lifecyclev1.GroupVersion.Group}, Resources: []string{"lifecyclepolicies"}, ResourceNames: []string{"policy"}, Verbs: verbs})
}

// newRun makes a run that has reached its second step: an approval, then a window.
func newRun(t *testing.T, namespace string, change func(*lifecyclev1.LifecycleRun)) *lifecyclev1.LifecycleRun {
	t.Helper()
	begun := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	run := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "run-"},
		Spec: lifecyclev1.LifecycleRunSpec{
			ClusterName: "c1", PolicyName: "policy", PolicyGeneration: 1, Mode: lifecyclev1.ModeEnforce,
			Hook: lifecyclev1.BeforeClusterUpgrade, Attempt: 1,
			Steps: []lifecyclev1.Step{named("quota", expression("true")), named("approve", approval), named("window", window("@daily", "", 60))},
			Progress: []lifecyclev1.StepProgress{
				{Name: "quota", StartTime: begun, EndTime: begun, Outcome: lifecyclev1.OutcomeSucceeded},
				{Name: "approve", StartTime: begun},
			},
		},
	}
	if change != nil {
		change(run)
	}
	if err := engineClient.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return run
}

// annotate makes a decision as kubectl annotate does.
func annotate(t *testing.T, c client.Client, run *lifecyclev1.LifecycleRun, annotation, value string) error {
	t.Helper()
	changed := run.DeepCopy()
	changed.Annotations = map[string]string{annotation: value}
	err := c.Patch(t.Context(), changed, client.MergeFrom(run))
	if err == nil {
		*run = *changed
	}
	return err
}

func TestADecisionIsRecordedWithWhoAndWhy(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	alice := decider(t, namespace, "alice", "approve", "skip", "retry")
	run := newRun(t, namespace, nil)
	before := time.Now().Add(-2 * time.Second)
	for range 2 { // the second time says nothing new
		if err := annotate(t, alice, run, lifecyclev1.ApproveAnnotation, "approve: change 12 is agreed: yes"); err != nil {
			t.Fatal(err)
		}
	}
	if len(run.Spec.Decisions) != 1 || len(run.Annotations) != 0 {
		t.Fatalf("decisions %+v, annotations %v", run.Spec.Decisions, run.Annotations)
	}
	got := run.Spec.Decisions[0]
	if got.Type != lifecyclev1.DecisionApprove || got.Step != "approve" || got.By != "alice" || got.Reason != "change 12 is agreed: yes" || got.Time.Time.Before(before) {
		t.Errorf("got %+v", got)
	}
	if err := annotate(t, alice, run, lifecyclev1.SkipAnnotation, "approve"); err != nil {
		t.Fatal(err)
	}
	if len(run.Spec.Decisions) != 2 || run.Spec.Decisions[1].Type != lifecyclev1.DecisionSkip || run.Spec.Decisions[0] != got {
		t.Errorf("got %+v", run.Spec.Decisions)
	}
}

func TestAFailedStepIsRetried(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	alice := decider(t, namespace, "alice", "retry")
	run := newRun(t, namespace, func(r *lifecyclev1.LifecycleRun) {
		r.Spec.Progress[1].Outcome = lifecyclev1.OutcomeFailed
	})
	if err := annotate(t, alice, run, lifecyclev1.RetryAnnotation, "approve"); err != nil {
		t.Fatal(err)
	}
	if len(run.Spec.Decisions) != 1 || run.Spec.Decisions[0].Type != lifecyclev1.DecisionRetry {
		t.Errorf("got %+v", run.Spec.Decisions)
	}
}

func TestADecisionNeedsItsVerb(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	run := newRun(t, namespace, nil)
	bob := decider(t, namespace, "bob", "approve", "get")
	err := annotate(t, bob, run, lifecyclev1.SkipAnnotation, "approve")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"bob" may not skip lifecyclepolicies.lifecycle.slipway.dev in namespace `+namespace) {
		t.Errorf("got %v", err)
	}
	run.Spec.Decisions = nil
	if err := annotate(t, bob, run, lifecyclev1.ApproveAnnotation, "approve"); err != nil {
		t.Error(err)
	}
	elsewhere := newRun(t, namespace, func(r *lifecyclev1.LifecycleRun) { r.Spec.PolicyName = "other" })
	if err := annotate(t, bob, elsewhere, lifecyclev1.ApproveAnnotation, "approve"); !apierrors.IsForbidden(err) {
		t.Errorf("for another policy: %v", err)
	}
}

func TestWhatCannotBeDecidedSaysWhatCan(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	alice := decider(t, namespace, "alice", "approve", "skip", "retry")
	failed := func(r *lifecyclev1.LifecycleRun) { r.Spec.Progress[1].Outcome = lifecyclev1.OutcomeFailed }
	for name, c := range map[string]struct {
		change            func(*lifecyclev1.LifecycleRun)
		annotation, value string
		want              string
	}{
		"no name":          {nil, lifecyclev1.ApproveAnnotation, ": because", "must be the name of a step"},
		"long reason":      {nil, lifecyclev1.ApproveAnnotation, "approve: " + strings.Repeat("x", 1025), "longer than 1024"},
		"unknown step":     {nil, lifecyclev1.ApproveAnnotation, "aprove", `no step "aprove"; its steps are quota, approve, window`},
		"ended step":       {nil, lifecyclev1.SkipAnnotation, "quota", `step "quota" has ended already; the run is at step "approve"`},
		"later step":       {nil, lifecyclev1.SkipAnnotation, "window", `step "window" is not reached yet; the run is at step "approve"`},
		"not failed":       {nil, lifecyclev1.RetryAnnotation, "approve", "has not failed"},
		"approve a failed": {failed, lifecyclev1.ApproveAnnotation, "approve", "start it anew first"},
		"approve a window": {func(r *lifecyclev1.LifecycleRun) { r.Spec.Progress[1].Outcome = lifecyclev1.OutcomeSucceeded }, lifecyclev1.ApproveAnnotation, "window", "it can be skipped"},
		"cancelled":        {func(r *lifecyclev1.LifecycleRun) { r.Spec.Cancelled = "the Cluster is being deleted" }, lifecyclev1.ApproveAnnotation, "approve", "was cancelled: the Cluster is being deleted"},
		"ended": {func(r *lifecyclev1.LifecycleRun) {
			r.Spec.Steps, r.Spec.Progress = r.Spec.Steps[:1], r.Spec.Progress[:1]
		}, lifecyclev1.SkipAnnotation, "quota", "the run has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			run := newRun(t, namespace, c.change)
			err := annotate(t, alice, run, c.annotation, c.value)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "metadata.annotations["+c.annotation+"]") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestNobodyElseChangesARun(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	alice := decider(t, namespace, "alice", "approve", "skip", "retry")
	for name, change := range map[string]func(*lifecyclev1.LifecycleRun){
		"decision": func(r *lifecyclev1.LifecycleRun) {
			r.Spec.Decisions = []lifecyclev1.Decision{{Type: lifecyclev1.DecisionApprove, Step: "approve", By: "boss", Time: metav1.Now()}}
		},
		"progress": func(r *lifecyclev1.LifecycleRun) { r.Spec.Progress[1].Outcome = lifecyclev1.OutcomeSucceeded },
		"steps":    func(r *lifecyclev1.LifecycleRun) { r.Spec.Steps = r.Spec.Steps[:1] },
		"mode":     func(r *lifecyclev1.LifecycleRun) { r.Spec.Mode = lifecyclev1.ModeAudit },
		"with a decision": func(r *lifecyclev1.LifecycleRun) {
			r.Annotations = map[string]string{lifecyclev1.ApproveAnnotation: "approve"}
			r.Spec.Cancelled = "by me"
		},
	} {
		for who, c := range map[string]client.Client{"alice": alice, "administrator": env.Client} {
			run := newRun(t, namespace, nil)
			change(run)
			if err := c.Update(t.Context(), run); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "nobody else changes") {
				t.Errorf("%s by %s: %v", name, who, err)
			}
		}
		run := newRun(t, namespace, nil)
		run.Spec.Progress[1].Outcome = lifecyclev1.OutcomeSucceeded
		if err := engineClient.Update(t.Context(), run); err != nil {
			t.Errorf("by the engine: %v", err)
		}
	}
	run := newRun(t, namespace, nil)
	run.Labels = map[string]string{"a": "b"}
	if err := alice.Update(t.Context(), run); err != nil {
		t.Errorf("a label: %v", err)
	}
}

// TestAMovedRunKeepsItsRecord creates a run as clusterctl move does: by an
// administrator, with all of its spec.
func TestAMovedRunKeepsItsRecord(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	run := newRun(t, namespace, func(r *lifecyclev1.LifecycleRun) {
		r.Spec.Decisions = []lifecyclev1.Decision{{Type: lifecyclev1.DecisionApprove, Step: "approve", By: "alice", Time: metav1.Now().Rfc3339Copy()}}
	})
	moved := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "moved"}, Spec: *run.Spec.DeepCopy()}
	if err := env.Client.Create(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if len(moved.Spec.Decisions) != 1 || moved.Spec.Decisions[0].By != "alice" || len(moved.Spec.Progress) != 2 {
		t.Errorf("got %+v", moved.Spec)
	}
}

func TestADecisionAboutANewRunIsRefused(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	run := newRun(t, namespace, nil)
	forged := &lifecyclev1.LifecycleRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "forged", Annotations: map[string]string{lifecyclev1.ApproveAnnotation: "approve"}},
		Spec:       *run.Spec.DeepCopy(),
	}
	if err := env.Client.Create(t.Context(), forged); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "annotate it afterwards") {
		t.Errorf("got %v", err)
	}
}
