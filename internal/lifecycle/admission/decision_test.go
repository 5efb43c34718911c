package admission

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

func waiting() *lifecyclev1.LifecycleRun {
	return &lifecyclev1.LifecycleRun{Spec: lifecyclev1.LifecycleRunSpec{
		Steps:    []lifecyclev1.Step{{Name: "a", Approval: &lifecyclev1.ApprovalStep{}}},
		Progress: []lifecyclev1.StepProgress{{Name: "a", StartTime: metav1.NewTime(time.Unix(0, 0))}},
	}}
}

func TestARunHoldsAsManyDecisionsAsTheAPIAllows(t *testing.T) {
	run := waiting()
	run.Spec.Decisions = make([]lifecyclev1.Decision, maxDecisions)
	if _, err := decide(run, lifecyclev1.DecisionApprove, "a", "alice", time.Now()); err == nil || !strings.Contains(err.Error(), "256 decisions") {
		t.Errorf("got %v", err)
	}
}

// FuzzDecide holds that whatever the annotation says, a decision is about the step
// that waits, or failed, and fits the API.
func FuzzDecide(f *testing.F) {
	for i, seed := range []string{"a", "a: because", "a:", ":", " a : b : c", "b", "a\n: \x00"} {
		f.Add(uint(i), i%2 == 0, seed)
	}
	f.Fuzz(func(t *testing.T, which uint, failed bool, value string) {
		run, what := waiting(), lifecyclev1.DecisionTypes()[which%uint(len(lifecyclev1.DecisionTypes()))]
		if failed {
			run.Spec.Progress[0].Outcome = lifecyclev1.OutcomeFailed
		}
		d, err := decide(run, what, value, "alice", time.Unix(1, 0))
		if err != nil {
			return
		}
		if d == nil || d.Type != what || d.Step != "a" || d.By != "alice" || len(d.Reason) > maxReason {
			t.Errorf("%q: %+v", value, d)
		}
		if allowed := what == lifecyclev1.DecisionSkip || failed == (what == lifecyclev1.DecisionRetry); !allowed {
			t.Errorf("%s of a step that has failed: %t", what, failed)
		}
	})
}

// FuzzValidate holds that no policy ends the process.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		"{matchCondition: 'cluster.a', hooks: [{hook: BeforeClusterCreate, steps: [{name: a, apply: {sources: [{kind: Secret, name: a}]}}]}]}",
		"{hooks: [{steps: [{window: {schedule: '@daily', timeZone: X}}, {wait: {apiVersion: v1, kind: Pod, expression: 'true'}}, {}]}]}",
		"{hooks: [{steps: [{job: {spec: {template: {}}}}, {webhook: {url: 'https://a'}}, {export: {resources: [{}]}}]}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		policy := &lifecyclev1.LifecyclePolicy{}
		if err := yaml.Unmarshal(data, &policy.Spec); err != nil {
			return
		}
		if err := Validate(policy); err == nil {
			for _, hook := range policy.Spec.Hooks {
				for i := range hook.Steps {
					if step.Of(&hook.Steps[i]).Name() == "" {
						t.Errorf("accepted %s", data)
					}
				}
			}
		}
	})
}

// The annotations and verbs are known to people and Roles by these words.
func TestWordsOfDecisions(t *testing.T) {
	want := map[lifecyclev1.DecisionType][2]string{
		lifecyclev1.DecisionApprove: {lifecyclev1.ApproveAnnotation, "approve"},
		lifecyclev1.DecisionSkip:    {lifecyclev1.SkipAnnotation, "skip"},
		lifecyclev1.DecisionRetry:   {lifecyclev1.RetryAnnotation, "retry"},
	}
	for _, what := range lifecyclev1.DecisionTypes() {
		if got := [2]string{what.Annotation(), what.Verb()}; got != want[what] {
			t.Errorf("%s has %q, want %q", what, got, want[what])
		}
		delete(want, what)
	}
	if len(want) > 0 {
		t.Errorf("DecisionTypes lacks %v", want)
	}
}
