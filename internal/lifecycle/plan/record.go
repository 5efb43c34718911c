package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// maxMessage is the longest message of a record, in bytes.
const maxMessage = 4096

// Apply writes a Begin, End or Restart into the run's record.
func Apply(run *lifecyclev1.LifecycleRun, action Action, now time.Time) {
	switch action.Do {
	case Begin:
		begin(run, action.Step.Name, now)
	case Restart:
		// A retry that a user requests uses what is there now.
		unpin(run, action.Step.Name)
		begin(run, action.Step.Name, now)
	case End:
		end(run.Progress(action.Step.Name), action.Outcome, action.Message, now)
	default:
	}
}

// begin starts the record of a step. Retries that were asked for until now are
// answered with this one.
func begin(run *lifecyclev1.LifecycleRun, name string, now time.Time) {
	forget(run, name)
	run.Spec.Progress = append(run.Spec.Progress, lifecyclev1.StepProgress{
		Name:      name,
		StartTime: metav1.NewTime(now),
		Attempt:   step.DecisionsFor(run, name).Retries,
	})
}

func unpin(run *lifecyclev1.LifecycleRun, name string) {
	run.Spec.Pins = slices.DeleteFunc(run.Spec.Pins, func(p lifecyclev1.Pin) bool { return p.Step == name })
}

func forget(run *lifecyclev1.LifecycleRun, name string) {
	run.Spec.Progress = slices.DeleteFunc(run.Spec.Progress, func(p lifecyclev1.StepProgress) bool { return p.Name == name })
}

func end(progress *lifecyclev1.StepProgress, outcome lifecyclev1.StepOutcome, message string, now time.Time) {
	progress.Outcome = outcome
	progress.EndTime = metav1.NewTime(now)
	progress.Message = Cut(message)
}

// RecordAttempt writes what an attempt led to into the run's record. It says whether the
// record has changed, and so must be stored before anything else is done.
func RecordAttempt(run *lifecyclev1.LifecycleRun, action Action, result step.Result, err error, now time.Time) (changed bool) {
	progress := run.Progress(action.Step.Name)
	if step.IsUnreached(err) && !action.Last {
		// Kept for the time when the step's is over.
		message := Cut(err.Error())
		changed = progress.Message != message
		progress.Message = message
		return changed
	}
	if err != nil {
		fail(action, progress, err, now)
		return true
	}
	if result.Job != nil && (progress.Job == nil || *progress.Job != *result.Job) {
		job := *result.Job
		progress.Job, changed = &job, true
	}
	switch {
	case result.Done && run.Spec.Mode == lifecyclev1.ModeAudit:
		end(progress, lifecyclev1.OutcomeSkipped, result.Message, now)
	case result.Done:
		end(progress, lifecyclev1.OutcomeSucceeded, result.Message, now)
	case action.Last:
		end(progress, lifecyclev1.OutcomeFailed, timedOut(action.Step, progress, result.Message), now)
	case progress.Failures > 0 || progress.Message != "":
		// Only failures in a row count: a job of hours may outlive many.
		progress.Failures, progress.LastFailureTime, progress.Message = 0, metav1.Time{}, ""
	default:
		return changed
	}
	return true
}

func fail(action Action, progress *lifecyclev1.StepProgress, err error, now time.Time) {
	progress.Failures++
	progress.LastFailureTime = metav1.NewTime(now)
	switch {
	case step.IsTerminal(err) || progress.Failures > retryLimit(action.Step):
		end(progress, lifecyclev1.OutcomeFailed, err.Error(), now)
	case action.Last:
		end(progress, lifecyclev1.OutcomeFailed, timedOut(action.Step, progress, err.Error()), now)
	default:
		progress.Message = Cut(err.Error())
	}
}

// Cut shortens a message to what the API allows.
func Cut(message string) string { return step.Cut(message, maxMessage) }
