package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Do is a kind of action.
type Do string

const (
	// Nothing is to be done: the run has ended, or has failed and waits for a decision.
	Nothing Do = "Nothing"
	// Begin says to store that the step begins.
	Begin Do = "Begin"
	// Execute says to make an attempt, then RecordAttempt.
	Execute Do = "Execute"
	// Pause requests another poll: a failed attempt is repeated then.
	Pause Do = "Pause"
	// End says to store that the step ends without a further attempt.
	End Do = "End"
	// Restart says to store that the step begins anew.
	Restart Do = "Restart"
)

// Action is what is to be done next.
type Action struct {
	Do Do
	// Step that it is about; nil for Nothing when the run has ended.
	Step *lifecyclev1.Step
	// After is how long a Pause lasts.
	After time.Duration
	// Last: the step's time is over. The attempt only looks at what is there already,
	// and the step fails when that is not done.
	Last bool
	// Outcome and Message of an End.
	Outcome lifecyclev1.StepOutcome
	Message string
}

// Next returns what is to be done in a run.
func Next(run *lifecyclev1.LifecycleRun, now time.Time) Action {
	current := Current(run)
	if current == nil || run.Spec.Cancelled != "" {
		return Action{Do: Nothing}
	}
	progress := run.Progress(current.Name)
	if progress == nil {
		return Action{Do: Begin, Step: current}
	}
	decided := step.DecisionsFor(run, current.Name)
	if skip := decided.Skip; skip != nil {
		return Action{Do: End, Step: current, Outcome: lifecyclev1.OutcomeSkipped, Message: skippedBy(skip)}
	}
	if progress.Outcome != "" {
		if decided.Retries > progress.Attempt {
			return Action{Do: Restart, Step: current}
		}
		return Action{Do: Nothing, Step: current}
	}
	return attempt(current, progress, now)
}

// attempt is what follows for a step that has begun and has not ended.
func attempt(s *lifecyclev1.Step, progress *lifecyclev1.StepProgress, now time.Time) Action {
	left, limited := timeLeft(s, progress, now)
	if limited && left <= 0 {
		if onlyLooks(s, progress) {
			return Action{Do: Execute, Step: s, Last: true}
		}
		return Action{Do: End, Step: s, Outcome: lifecyclev1.OutcomeFailed, Message: timedOut(s, progress, progress.Message)}
	}
	if pause := pauseLeft(s, progress, now); pause > 0 {
		if limited {
			pause = min(pause, left)
		}
		return Action{Do: Pause, Step: s, After: pause}
	}
	return Action{Do: Execute, Step: s}
}

// onlyLooks says whether a further attempt starts nothing: a controller that was away
// when the time ran out must not fail a job that is done by now.
func onlyLooks(s *lifecyclev1.Step, progress *lifecyclev1.StepProgress) bool {
	return step.FactsOf(s).Waits || progress.Job != nil && progress.Job.UID != ""
}

// TimeLeft is the remaining time of a step; false when it has no limit, or has not
// begun. It is never more than the step's timeout: a clock that went back counts as no
// time.
func TimeLeft(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, now time.Time) (time.Duration, bool) {
	progress := run.Progress(s.Name)
	if progress == nil {
		return 0, false
	}
	return timeLeft(s, progress, now)
}

func timeLeft(s *lifecyclev1.Step, progress *lifecyclev1.StepProgress, now time.Time) (time.Duration, bool) {
	timeout := step.Timeout(s)
	if timeout == 0 {
		return 0, false
	}
	return timeout - max(0, now.Sub(progress.StartTime.Time)), true
}

// Defaults of a RetryPolicy. A first pause that is longer than defaultMaxBackoff is the
// longest one as well, unless maxBackoffSeconds is set.
const (
	defaultRetryLimit = 5
	defaultMaxBackoff = 300 * time.Second
)

func retryLimit(s *lifecyclev1.Step) int32 {
	if s.Retry == nil || s.Retry.Limit == nil {
		return defaultRetryLimit
	}
	return *s.Retry.Limit
}

// Backoff is the pause after a number of failed attempts in a row, which may be more
// than are repeated.
func Backoff(s *lifecyclev1.Step, failures int32) time.Duration {
	pause := step.FirstBackoff(s.Retry)
	longest := max(defaultMaxBackoff, pause)
	if s.Retry != nil && s.Retry.MaxBackoffSeconds != nil {
		longest = time.Duration(*s.Retry.MaxBackoffSeconds) * time.Second
	}
	for ; failures > 1 && pause < longest; failures-- {
		pause *= 2
	}
	return min(pause, longest)
}

func pauseLeft(s *lifecyclev1.Step, progress *lifecyclev1.StepProgress, now time.Time) time.Duration {
	if progress.Failures == 0 {
		return 0
	}
	return Backoff(s, progress.Failures) - max(0, now.Sub(progress.LastFailureTime.Time))
}

func skippedBy(skip *lifecyclev1.Decision) string {
	if skip.Reason == "" {
		return "skipped by " + skip.By
	}
	return fmt.Sprintf("skipped by %s: %s", skip.By, skip.Reason)
}

func timedOut(s *lifecyclev1.Step, progress *lifecyclev1.StepProgress, last string) string {
	message := fmt.Sprintf("not done within %s of %s", step.Timeout(s), clock(progress.StartTime.Time))
	if last != "" {
		message += ": " + last
	}
	return message
}

// Current returns the first step that has not passed; nil when all have.
func Current(run *lifecyclev1.LifecycleRun) *lifecyclev1.Step {
	for i := range run.Spec.Steps {
		if s := &run.Spec.Steps[i]; !passed(run, s) {
			return s
		}
	}
	return nil
}

// passed says whether a step has ended and does not block the next one.
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

// Newest returns the last attempt among the runs that answer a call; nil when none does.
func Newest(runs []lifecyclev1.LifecycleRun, answers func(*lifecyclev1.LifecycleRun) bool) *lifecyclev1.LifecycleRun {
	var newest *lifecyclev1.LifecycleRun
	for i := range runs {
		if run := &runs[i]; answers(run) && (newest == nil || run.Spec.Attempt > newest.Spec.Attempt) {
			newest = run
		}
	}
	return newest
}

// Counts says whether a run speaks for its policy: it was not given up, and one that was
// only looked at does not stand for one that is to be executed.
func Counts(run *lifecyclev1.LifecycleRun, policy *lifecyclev1.LifecyclePolicy) bool {
	return run.Spec.Cancelled == "" && (run.Spec.Mode != lifecyclev1.ModeAudit || policy.Spec.Mode == lifecyclev1.ModeAudit)
}

// OwnerUID is the UID of the Cluster that owns a run; empty when none does.
func OwnerUID(run *lifecyclev1.LifecycleRun) types.UID {
	for _, owner := range run.OwnerReferences {
		if owner.Kind == "Cluster" && owner.Name == run.Spec.ClusterName {
			return owner.UID
		}
	}
	return ""
}
