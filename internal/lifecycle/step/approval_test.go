package step_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

func TestApproval(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	decision := func(kind lifecyclev1.DecisionType, name, reason string) lifecyclev1.Decision {
		return lifecyclev1.Decision{Type: kind, Step: name, By: "alice", Time: at, Reason: reason}
	}
	for _, c := range []struct {
		name      string
		mode      lifecyclev1.PolicyMode
		decisions []lifecyclev1.Decision
		want      step.Result
	}{
		{"nobody", lifecyclev1.ModeEnforce, nil, step.Result{Message: "read the notes"}},
		{"another step", lifecyclev1.ModeEnforce, []lifecyclev1.Decision{decision(lifecyclev1.DecisionApprove, "other", "")}, step.Result{Message: "read the notes"}},
		{"approved", lifecyclev1.ModeEnforce, []lifecyclev1.Decision{decision(lifecyclev1.DecisionApprove, "go", "")},
			step.Result{Done: true, Message: "approved by alice at 2026-03-01T12:00:00Z"}},
		{"with a reason", lifecyclev1.ModeEnforce, []lifecyclev1.Decision{decision(lifecyclev1.DecisionApprove, "go", "read")},
			step.Result{Done: true, Message: "approved by alice at 2026-03-01T12:00:00Z: read"}},
		{"before the last retry", lifecyclev1.ModeEnforce, []lifecyclev1.Decision{decision(lifecyclev1.DecisionApprove, "go", ""), decision(lifecyclev1.DecisionRetry, "go", "")},
			step.Result{Message: "read the notes"}},
		{"audit", lifecyclev1.ModeAudit, nil, step.Result{Done: true, Message: "would wait for approval"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := &lifecyclev1.LifecycleRun{Spec: lifecyclev1.LifecycleRunSpec{Mode: c.mode, Decisions: c.decisions}}
			s := &lifecyclev1.Step{Name: "go", Approval: &lifecyclev1.ApprovalStep{Message: "read the notes"}}
			got, err := execute(t, nil, step.Input{Run: run, Step: s})
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
