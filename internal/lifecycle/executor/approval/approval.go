// Package approval executes approval steps: it waits until somebody approves. Who may,
// and who did, is the admission webhook's matter.
//
// It may import step.
package approval

import (
	"context"
	"fmt"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

type executor struct{}

// New returns the executor of approval steps.
func New() step.Executor { return executor{} }

// Execute is done when the step was approved since its last retry.
func (executor) Execute(_ context.Context, in step.Input) (step.Result, error) {
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return step.Result{Done: true, Message: "would wait for approval"}, nil
	}
	approve := step.DecisionsFor(in.Run, in.Step.Name).Approve
	if approve == nil {
		return step.Result{Message: in.Step.Approval.Message}, nil
	}
	message := fmt.Sprintf("approved by %s at %s", approve.By, approve.Time.UTC().Format(time.RFC3339))
	if approve.Reason != "" {
		message += ": " + approve.Reason
	}
	return step.Result{Done: true, Message: message}, nil
}
