package step

import (
	"context"
	"fmt"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

type approvalExecutor struct{}

// New returns the executor of approval steps.
func NewApproval() Executor { return approvalExecutor{} }

// Execute is done when the step was approved since its last retry.
func (approvalExecutor) Execute(_ context.Context, in Input) (Result, error) {
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: "would wait for approval"}, nil
	}
	approve := DecisionsFor(in.Run, in.Step.Name).Approve
	if approve == nil {
		return Result{Message: in.Step.Approval.Message}, nil
	}
	message := fmt.Sprintf("approved by %s at %s", approve.By, approve.Time.UTC().Format(time.RFC3339))
	if approve.Reason != "" {
		message += ": " + approve.Reason
	}
	return Result{Done: true, Message: message}, nil
}
