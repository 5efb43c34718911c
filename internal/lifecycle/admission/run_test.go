package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// awaitList waits until the engine's cache has the policies of a namespace: warnings
// look there.
func awaitList(t *testing.T, namespace string, count int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the cache has %d policies", count), func() error {
		list := &lifecyclev1.LifecyclePolicyList{}
		err := cached.List(t.Context(), list, client.InNamespace(namespace))
		if n := len(list.Items); err == nil && n != count {
			err = fmt.Errorf("it has %d", n)
		}
		return err
	})
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

// A window must be open when the hook passes, so it can be skipped after it has closed,
// whether the run has ended or not.
func TestAWindowThatWasOpenIsSkipped(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	alice, bob := decider(t, namespace, "alice", "approve", "skip", "retry"), decider(t, namespace, "bob", "approve")
	passed := func(steps int) func(*lifecyclev1.LifecycleRun) {
		return func(r *lifecyclev1.LifecycleRun) {
			r.Spec.Steps[0], r.Spec.Steps[2] = r.Spec.Steps[2], r.Spec.Steps[0]
			r.Spec.Progress = nil
			for _, s := range r.Spec.Steps[:steps] {
				r.Spec.Progress = append(r.Spec.Progress, lifecyclev1.StepProgress{Name: s.Name, StartTime: metav1.Now(), EndTime: metav1.Now(), Outcome: lifecyclev1.OutcomeSucceeded})
			}
		}
	}
	for name, steps := range map[string]int{"while a later step waits": 1, "after all have ended": 3} {
		t.Run(name, func(t *testing.T) {
			run := newRun(t, namespace, passed(steps))
			for _, annotation := range []string{lifecyclev1.ApproveAnnotation, lifecyclev1.RetryAnnotation} {
				if err := annotate(t, alice, run, annotation, "window"); !apierrors.IsInvalid(err) {
					t.Errorf("%s: %v", annotation, err)
				}
			}
			for range 2 { // the second time says nothing new
				if err := annotate(t, alice, run, lifecyclev1.SkipAnnotation, "window: it is urgent"); err != nil {
					t.Fatal(err)
				}
			}
			if len(run.Spec.Decisions) != 1 || run.Spec.Decisions[0].Type != lifecyclev1.DecisionSkip || run.Spec.Decisions[0].By != "alice" {
				t.Errorf("got %+v", run.Spec.Decisions)
			}
			run.Spec.Decisions = nil
			if err := annotate(t, bob, run, lifecyclev1.SkipAnnotation, "window"); !apierrors.IsForbidden(err) {
				t.Errorf("without the verb: %v", err)
			}
		})
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
}

// TestADeciderChangesNoMetadata: a run without its owner would not count for its
// Cluster any more, and be in the way of the next one of its name.
func TestADeciderChangesNoMetadata(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	alice := decider(t, namespace, "alice", "approve", "skip", "retry")
	mover := user(t, namespace, "mover", allow(lifecyclev1.GroupVersion.Group, "lifecycleruns", "get", "update", "import"))
	collector, err := client.New(env.As("system:serviceaccount:kube-system:generic-garbage-collector"), client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*lifecyclev1.LifecycleRun){
		"owner":      func(r *lifecyclev1.LifecycleRun) { r.OwnerReferences = nil },
		"label":      func(r *lifecyclev1.LifecycleRun) { r.Labels = map[string]string{"a": "b"} },
		"annotation": func(r *lifecyclev1.LifecycleRun) { r.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		"finalizer":  func(r *lifecyclev1.LifecycleRun) { r.Finalizers = []string{"example.com/stay"} },
		"with a decision": func(r *lifecyclev1.LifecycleRun) {
			r.Annotations = map[string]string{lifecyclev1.ApproveAnnotation: "approve"}
			r.OwnerReferences = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			owned := func() *lifecyclev1.LifecycleRun {
				return newRun(t, namespace, func(r *lifecyclev1.LifecycleRun) {
					r.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c1", UID: "1"}}
				})
			}
			run := owned()
			change(run)
			if err := alice.Update(t.Context(), run); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `metadata: "alice" may not import lifecycleruns`) {
				t.Errorf("by a decider: %v", err)
			}
			if name == "with a decision" {
				return
			}
			for who, c := range map[string]client.Client{"mover": mover, "garbage collector": collector, "engine": engineClient} {
				run := owned()
				change(run)
				if err := c.Update(t.Context(), run); err != nil {
					t.Errorf("by the %s: %v", who, err)
				}
				if len(run.Finalizers) > 0 {
					run.Finalizers = nil
					if err := c.Update(t.Context(), run); err != nil {
						t.Errorf("by the %s: %v", who, err)
					}
				}
			}
		})
	}
}

// TestNobodyForgesARun: whoever may create runs, and no more, passes no gate by it and
// has no Job made.
func TestNobodyForgesARun(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	mallory := user(t, namespace, "mallory", allow(lifecyclev1.GroupVersion.Group, "lifecycleruns", "get", "create"))
	approved := newRun(t, namespace, func(r *lifecyclev1.LifecycleRun) {
		r.Spec.Decisions = []lifecyclev1.Decision{{Type: lifecyclev1.DecisionApprove, Step: "approve", By: "boss", Time: metav1.Now().Rfc3339Copy()}}
	})
	for name, change := range map[string]func(*lifecyclev1.LifecycleRunSpec){
		"with decisions and progress": func(*lifecyclev1.LifecycleRunSpec) {},
		"with a decision":             func(s *lifecyclev1.LifecycleRunSpec) { s.Progress = nil },
		"with progress":               func(s *lifecyclev1.LifecycleRunSpec) { s.Decisions = nil },
		"given up":                    func(s *lifecyclev1.LifecycleRunSpec) { s.Decisions, s.Progress, s.Cancelled = nil, nil, "never mind" },
		"not begun":                   func(s *lifecyclev1.LifecycleRunSpec) { s.Decisions, s.Progress = nil, nil },
	} {
		forged := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "forged-"}, Spec: *approved.Spec.DeepCopy()}
		change(&forged.Spec)
		if err := mallory.Create(t.Context(), forged); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `spec: "mallory" may not import lifecycleruns.lifecycle.slipway.dev in namespace `+namespace) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAMovedRunKeepsItsRecord creates a run as clusterctl move does: with all of its
// spec, by an administrator or somebody with the verb import.
func TestAMovedRunKeepsItsRecord(t *testing.T) {
	testenv.Skip(t)
	namespace := env.Namespace(t)
	run := newRun(t, namespace, func(r *lifecyclev1.LifecycleRun) {
		r.Spec.Decisions = []lifecyclev1.Decision{{Type: lifecyclev1.DecisionApprove, Step: "approve", By: "alice", Time: metav1.Now().Rfc3339Copy()}}
	})
	mover := user(t, namespace, "mover", allow(lifecyclev1.GroupVersion.Group, "lifecycleruns", "create", "import"))
	for who, c := range map[string]client.Client{"administrator": env.Client, "mover": mover} {
		moved := &lifecyclev1.LifecycleRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "moved-"}, Spec: *run.Spec.DeepCopy()}
		if err := c.Create(t.Context(), moved); err != nil {
			t.Fatalf("by the %s: %v", who, err)
		}
		if len(moved.Spec.Decisions) != 1 || moved.Spec.Decisions[0].By != "alice" || len(moved.Spec.Progress) != 2 {
			t.Errorf("by the %s: got %+v", who, moved.Spec)
		}
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
