package step

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Approval is the kind that waits until somebody approves.
const Approval = "approval"

type approvalKind struct{}

var _ = register(approvalKind{})

// Name implements Kind.
func (approvalKind) Name() string { return Approval }

// Manual implements Kind.
func (approvalKind) Manual() (done, workload string) {
	return "somebody approved", "no"
}

// Is implements Kind.
func (approvalKind) Is(s *lifecyclev1.Step) bool { return s.Approval != nil }

// Facts implements Kind.
func (approvalKind) Facts(s *lifecyclev1.Step) Facts {
	wanted := "for approval"
	if s.Approval.Message != "" {
		wanted += fmt.Sprintf(" (%s)", s.Approval.Message)
	}
	return Facts{Doing: "waits " + wanted, Approval: wanted, Limit: 0, Waits: true, FollowsCluster: false, Workload: "", Lasting: nil}
}

// Needs implements Kind.
func (approvalKind) Needs(string, *lifecyclev1.Step, *field.Path) Needs {
	return Needs{Reads: nil, Engine: nil, Author: nil}
}

// Validate implements Kind.
func (approvalKind) Validate(*lifecyclev1.Step, *field.Path) field.ErrorList { return nil }

// Execute is done when the step was approved since its last retry.
func (approvalKind) Execute(_ context.Context, in Input) (Result, error) {
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
