package plan

import (
	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Current returns the first step that has not passed; nil when all have.
func Current(run *lifecyclev1.LifecycleRun) *lifecyclev1.Step {
	for i := range run.Spec.Steps {
		if s := &run.Spec.Steps[i]; !passed(run, s) {
			return s
		}
	}
	return nil
}

// passed says whether a step has ended and does not hold up the next.
func passed(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) bool {
	progress := run.Progress(s.Name)
	if progress == nil || progress.Outcome == "" {
		return false
	}
	return progress.Outcome != lifecyclev1.OutcomeFailed ||
		s.OnFailure == lifecyclev1.FailureContinue || run.Spec.Mode == lifecyclev1.ModeAudit
}

// Phase returns the state of a run, from its spec alone.
func Phase(run *lifecyclev1.LifecycleRun) lifecyclev1.RunPhase {
	if run.Spec.Cancelled != "" {
		return lifecyclev1.RunCancelled
	}
	current := Current(run)
	if current == nil {
		return lifecyclev1.RunSucceeded
	}
	progress := run.Progress(current.Name)
	switch {
	case progress == nil && len(run.Spec.Progress) == 0:
		return lifecyclev1.RunPending
	case progress == nil:
		return lifecyclev1.RunRunning
	case progress.Outcome != "":
		decided := step.DecisionsFor(run, current.Name)
		if decided.Skip != nil || decided.Retries > progress.Attempt {
			return lifecyclev1.RunRunning
		}
		return lifecyclev1.RunFailed
	case step.FactsOf(current).Waits:
		return lifecyclev1.RunWaiting
	default:
		return lifecyclev1.RunRunning
	}
}

// Finished says whether nothing more will happen in a run.
func Finished(run *lifecyclev1.LifecycleRun) bool {
	phase := Phase(run)
	return phase == lifecyclev1.RunSucceeded || phase == lifecyclev1.RunCancelled
}
