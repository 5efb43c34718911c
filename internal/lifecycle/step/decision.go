package step

import (
	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Decisions are what people decided about a step, as far as it still counts. Their
// times are for people: clocks jump, so only their order counts.
type Decisions struct {
	// Approve and Skip are the newest since the last Retry; nil when there is none.
	Approve, Skip *lifecyclev1.Decision
	// Retries is how often the step was started anew; see StepProgress.Attempt.
	Retries int32
	// Retry is the newest.
	Retry *lifecyclev1.Decision
}

// DecisionsFor returns what was decided about the step of that name.
func DecisionsFor(run *lifecyclev1.LifecycleRun, name string) Decisions {
	var d Decisions
	for i := range run.Spec.Decisions {
		decision := &run.Spec.Decisions[i]
		if decision.Step != name {
			continue
		}
		switch decision.Type {
		case lifecyclev1.DecisionApprove:
			d.Approve = decision
		case lifecyclev1.DecisionSkip:
			d.Skip = decision
		case lifecyclev1.DecisionRetry:
			d = Decisions{Retries: d.Retries + 1, Retry: decision}
		}
	}
	return d
}
