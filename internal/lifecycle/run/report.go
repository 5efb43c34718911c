package run

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

// report writes the status, when it has changed.
func (r *Reconciler) report(ctx context.Context, s *scope, before *lifecyclev1.LifecycleRun) error {
	setStatus(s)
	if apiequality.Semantic.DeepEqual(before.Status, s.run.Status) {
		return nil
	}
	// The resource version has moved on with the writes of the spec, and does not
	// matter: the status follows from what is in this hand.
	base := s.run.DeepCopy()
	base.Status = before.Status
	if err := r.Client.Status().Patch(ctx, s.run.DeepCopy(), client.MergeFrom(base)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("patch the status: %w", err))
	}
	return nil
}

// setStatus derives the status from the spec, and what the last attempt reported.
func setStatus(s *scope) {
	run := s.run
	status := &run.Status
	status.ObservedGeneration = run.Generation
	status.Phase = plan.Phase(run)
	status.Step, status.Report, status.WaitingSince, status.NextAttemptTime = "", "", metav1.Time{}, metav1.Time{}
	if current := plan.Current(run); current != nil && status.Phase != lifecyclev1.RunCancelled {
		status.Step, status.Report = current.Name, plan.Cut(s.seen)
		if progress := run.Progress(current.Name); progress != nil {
			status.WaitingSince = progress.StartTime
		}
	}
	if !s.nextAttempt.IsZero() {
		status.NextAttemptTime = metav1.NewTime(s.nextAttempt).Rfc3339Copy()
	}
	status.Message = plan.Cut(plan.Explain(run))
	if s.held != "" {
		status.Message = plan.Cut("on hold: " + s.held)
	}
	meta.SetStatusCondition(&status.Conditions, completed(run))
}

// completed is the condition of a run.
func completed(run *lifecyclev1.LifecycleRun) metav1.Condition {
	condition := metav1.Condition{
		Type: lifecyclev1.CompletedCondition, Status: metav1.ConditionFalse,
		ObservedGeneration: run.Generation, Message: run.Status.Message,
	}
	switch run.Status.Phase {
	case lifecyclev1.RunSucceeded:
		condition.Status, condition.Reason = metav1.ConditionTrue, lifecyclev1.RunCompletedReason
	case lifecyclev1.RunCancelled:
		condition.Reason = lifecyclev1.RunCancelledReason
	case lifecyclev1.RunFailed:
		condition.Reason = lifecyclev1.StepFailedReason
	case lifecyclev1.RunWaiting:
		condition.Reason = lifecyclev1.StepWaitingReason
	default:
		condition.Reason = lifecyclev1.StepRunningReason
	}
	return condition
}

// eventf tells what happened, on the run and on its Cluster.
func (r *Reconciler) eventf(s *scope, kind, reason, action, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	r.Recorder.Eventf(s.run, s.cluster, kind, reason, action, "%.900s", note)
	r.Recorder.Eventf(s.cluster, s.run, kind, reason, action, "LifecyclePolicy %s, %.900s", s.run.Spec.PolicyName, note)
}
