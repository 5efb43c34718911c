package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/tracing"
)

const (
	// maxActions bounds one reconcile, so that no run keeps others waiting.
	maxActions = 64
	// attemptTimeout is the time limit of an executor for a step without a limit, or whose
	// time is over. For others it is the remaining time.
	attemptTimeout = time.Minute
	// defaultPause is the poll interval of a step that does not set one.
	defaultPause = time.Minute
	// shortestPause keeps a step that is always due from keeping others waiting.
	shortestPause = time.Second
)

// advance carries out one action after the other until the run has to wait.
func (r *Reconciler) advance(ctx context.Context, s *scope) error {
	for range maxActions {
		action := r.next(s)
		switch action.Do {
		case plan.Begin, plan.End, plan.Restart:
			if err := r.record(ctx, s, action); err != nil {
				return err
			}
		case plan.Execute:
			if wait, last := r.attempts.early(s, action.Step, r.Clock.Now()); wait > 0 && !action.Last {
				s.seen, s.requeueAfter = last.report, max(wait, shortestPause)
				if last.misses > 0 {
					s.nextAttempt = last.at.Add(last.after)
				}
				return nil
			}
			again, err := r.attempt(ctx, s, action)
			if err != nil || !again {
				return err
			}
		case plan.Pause:
			s.nextAttempt = r.Clock.Now().Add(action.After)
			s.requeueAfter = max(action.After, shortestPause)
			return nil
		case plan.Nothing:
			r.awaitWindow(s)
			return nil
		}
	}
	s.requeueAfter = shortestPause
	return nil
}

// awaitWindow looks again at a run that has succeeded when one of its windows opens or
// closes, as long as its hook has not passed.
func (r *Reconciler) awaitWindow(s *scope) {
	now := r.Clock.Now()
	if _, _, changes := plan.Holds(s.run, s.cluster, now); !changes.IsZero() {
		s.requeueAfter = max(changes.Sub(now), shortestPause)
	}
}

// next is what plan says, but for steps on a workload cluster that never was.
func (r *Reconciler) next(s *scope) plan.Action {
	now := r.Clock.Now()
	action := plan.Next(s.run, now)
	current := action.Step
	if current == nil || action.Do == plan.Begin || action.Do == plan.End {
		return action
	}
	if why := plan.NoWorkload(s.run, current, s.cluster, now); why != "" {
		return plan.Action{Do: plan.End, Step: current, Outcome: lifecyclev1.OutcomeSkipped, Message: why}
	}
	return action
}

// record stores a Begin, an End or a Restart.
func (r *Reconciler) record(ctx context.Context, s *scope, action plan.Action) error {
	// What the API server returns replaces the steps of the run.
	current := action.Step.DeepCopy()
	if action.Do == plan.End {
		action.Message += r.stopped(ctx, s, current)
	}
	now := r.Clock.Now()
	plan.Apply(s.run, action, now)
	if err := r.store(ctx, s); err != nil {
		return err
	}
	s.seen = ""
	switch action.Do {
	case plan.Begin:
		s.began = now
		r.eventf(s, normal, "StepBegan", "Execute", "%s: step %s", s.run.Spec.Hook, current.Name)
	case plan.Restart:
		s.began = now
		by := step.DecisionsFor(s.run, current.Name).Retry
		r.eventf(s, normal, "StepRetried", "Execute", "%s: step %s is retried for %s", s.run.Spec.Hook, current.Name, by.By)
	default:
		r.ended(ctx, s, current)
	}
	return nil
}

// attempt executes the step once. It says whether something else can be done at once.
func (r *Reconciler) attempt(ctx context.Context, s *scope, action plan.Action) (again bool, _ error) {
	current := action.Step.DeepCopy()
	action.Step = current
	result, err := r.execute(ctx, s, action)
	if errors.Is(err, errUnderWay) {
		s.seen = "an attempt is under way"
		if left, limited := plan.TimeLeft(s.run, current, r.Clock.Now()); limited && !action.Last {
			s.requeueAfter = max(left, shortestPause)
		}
		return false, nil
	}
	if ctx.Err() != nil {
		// The controller stops: that is not the step's failure.
		return false, ctx.Err()
	}
	now := r.Clock.Now()
	if plan.RecordAttempt(s.run, action, result, err, now) {
		// What has not succeeded may go on, also when it is only out of reach.
		if progress := s.run.Progress(current.Name); progress.Outcome != "" && progress.Outcome != lifecyclev1.OutcomeSucceeded {
			progress.Message = plan.Cut(progress.Message + r.stopped(ctx, s, current))
		}
		if err := r.store(ctx, s); err != nil {
			return false, err
		}
		again = true
	}
	if progress := s.run.Progress(current.Name); progress.Outcome != "" {
		s.seen = ""
		r.ended(ctx, s, current)
		return true, nil
	}
	if step.IsUnreached(err) {
		r.missed(s, current, err, now)
		return false, nil
	}
	if err != nil {
		attemptFailures.WithLabelValues(step.Of(current).Name()).Inc()
		r.eventf(s, warning, "AttemptFailed", "Execute", "%s: step %s: %v", s.run.Spec.Hook, current.Name, err)
		return true, nil
	}
	s.seen = result.Message
	if again && result.Job != nil && result.After == 0 {
		// What it intends is stored now, so it can go on.
		return true, nil
	}
	s.requeueAfter = pause(s.run, current, result.After, now)
	r.attempts.remember(s.run, current, now, s.requeueAfter, result.Message)
	return false, nil
}

// missed backs a step off that could not reach what it works on. It is logged once.
func (r *Reconciler) missed(s *scope, current *lifecyclev1.Step, err error, now time.Time) {
	attemptFailures.WithLabelValues(step.Of(current).Name()).Inc()
	wait, misses := r.attempts.missed(s, current, now, err.Error())
	s.seen, s.requeueAfter = err.Error(), wait
	s.nextAttempt = now.Add(wait)
	if misses == 1 {
		r.eventf(s, warning, "AttemptFailed", "Execute", "%s: step %s: %v", s.run.Spec.Hook, current.Name, err)
	}
}

// execute makes an attempt, or looks for the end of the one that is under way.
func (r *Reconciler) execute(ctx context.Context, s *scope, action plan.Action) (step.Result, error) {
	current := action.Step
	in, limit := r.input(s, current), attemptTimeout
	if left, limited := plan.TimeLeft(s.run, current, r.Clock.Now()); limited && !action.Last {
		limit = left
	}
	return r.flights.attempt(ctx, in, action.Last, func(ctx context.Context) (step.Result, error) {
		attempt, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		began := r.Clock.Now()
		result, err := r.KindOf(current).Execute(attempt, in)
		if errors.Is(err, context.DeadlineExceeded) && attempt.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("the attempt took longer than %s: %w", limit, err)
		}
		r.traceAttempt(ctx, in, began, err)
		return result, err
	})
}

// input is what an executor gets: copies, so that the run is changed here alone.
func (r *Reconciler) input(s *scope, current *lifecyclev1.Step) step.Input {
	return step.Input{
		Env:      r.Env,
		Run:      s.run.DeepCopy(),
		Step:     current.DeepCopy(),
		Progress: *s.run.Progress(current.Name).DeepCopy(),
		Cluster:  s.cluster.DeepCopy(),
		Now:      r.Clock.Now(),
	}
}

// pause is when to poll again: as the executor says, but not after the step's time.
func pause(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, after time.Duration, now time.Time) time.Duration {
	if after == 0 {
		after = defaultPause
	}
	if left, limited := plan.TimeLeft(run, s, now); limited {
		after = min(after, left)
	}
	return max(after, shortestPause)
}

// ended tells that a step has ended.
func (r *Reconciler) ended(ctx context.Context, s *scope, current *lifecyclev1.Step) {
	progress := s.run.Progress(current.Name)
	kind, failed := normal, ""
	if progress.Outcome == lifecyclev1.OutcomeFailed {
		kind, failed = warning, progress.Message
	}
	tracing.Observe(stepDuration.WithLabelValues(step.Of(current).Name(), string(progress.Outcome)),
		max(0, progress.EndTime.Sub(progress.StartTime.Time)), tracing.Exemplar(r.traceStep(ctx, s, current, failed)))
	r.eventf(s, kind, "Step"+string(progress.Outcome), "Execute", "%s: step %s: %s", s.run.Spec.Hook, current.Name, progress.Message)
	if plan.Phase(s.run) == lifecyclev1.RunSucceeded {
		r.traceRun(ctx, s, "")
		r.eventf(s, normal, "RunSucceeded", "Finish", "%s: %s", s.run.Spec.Hook, plan.Explain(s.run))
	}
}

// pin records the content that steps refer to, before the first one begins: what people
// approve, and what the policy's author meant, must not be changed by who may write a
// ConfigMap. What is missing is pinned when it comes.
func (r *Reconciler) pin(ctx context.Context, s *scope) error {
	changed := false
	for i := range s.run.Spec.Steps {
		current := &s.run.Spec.Steps[i]
		pinner, ok := r.KindOf(current).(step.Pinner)
		if progress := s.run.Progress(current.Name); !ok || s.run.Pin(current.Name) != "" || progress != nil && progress.Outcome != "" {
			continue
		}
		digest, err := pinner.Pin(ctx, r.Env, s.run, current)
		if err != nil {
			return fmt.Errorf("pin what step %s refers to: %w", current.Name, err)
		}
		if digest != "" {
			s.run.Spec.Pins = append(s.run.Spec.Pins, lifecyclev1.Pin{Step: current.Name, Digest: digest})
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return r.store(ctx, s)
}

// adopt takes over what the policy says now.
func (r *Reconciler) adopt(ctx context.Context, s *scope) error {
	if !plan.Adopt(s.run, s.policy, s.cluster, r.Clock.Now()) {
		return nil
	}
	if err := r.store(ctx, s); err != nil {
		return err
	}
	r.eventf(s, normal, "PolicyAdopted", "Adopt", "%s: takes over LifecyclePolicy %s as it is now", s.run.Spec.Hook, s.policy.Name)
	return nil
}

// lookForRights is how often a run that waits for a right to be granted looks again.
const lookForRights = 30 * time.Second

// cancel gives the run up when its policy, its Cluster or its upgrade does not want it
// any more. A policy that cannot be read changes nothing.
func (r *Reconciler) cancel(ctx context.Context, s *scope) error {
	now := r.Clock.Now()
	reason := plan.CancelReason(s.run, s.policy, s.cluster, now)
	var err error
	if reason == "" && s.policy != nil && plan.Open(s.run, s.cluster, now) {
		reason, err = r.unmatched(ctx, s)
	}
	if err != nil {
		s.stopped, s.held = true, err.Error()
		return nil //nolint:nilerr // the run is held and says why
	}
	if reason == "" {
		return nil
	}
	current := plan.Current(s.run)
	if current != nil {
		err := r.stop(ctx, s, current)
		if rights.IsMissing(err) {
			// Whoever calls an upgrade off relies on its Jobs to end: cancelled, nobody
			// would look at the run again.
			s.stopped, s.held, s.requeueAfter = true, fmt.Sprintf("%s, but %v", reason, err), lookForRights
			return nil
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("A cancelled run leaves something behind", "step", current.Name, "reason", err.Error())
		}
	}
	s.run.Spec.Cancelled = reason
	if err := r.store(ctx, s); err != nil {
		return err
	}
	s.stopped = true
	r.traceCancel(ctx, s, current)
	r.eventf(s, normal, "RunCancelled", "Cancel", "%s: %s", s.run.Spec.Hook, reason)
	return nil
}

// unmatched says why the policy is not about the Cluster any more; empty when it is.
func (r *Reconciler) unmatched(ctx context.Context, s *scope) (string, error) {
	mismatch, err := r.matcher.Match(ctx, s.policy, s.cluster)
	if err != nil || mismatch == expression.NoMismatch {
		return "", err
	}
	return fmt.Sprintf("LifecyclePolicy %s is not about the Cluster any more: %s", s.policy.Name, mismatch), nil
}
