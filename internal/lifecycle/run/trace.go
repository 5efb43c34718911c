package run

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// A run is one trace, named by its UID. A step is told when it ends, from the begin that its
// record has: whoever ends it, after however many restarts, tells all of it. What is below
// it, failed attempts, may have been told by others before.

// traceStep tells a step that has ended, or was given up, and returns the context of it.
func (r *Reconciler) traceStep(ctx context.Context, s *scope, current *lifecyclev1.Step, failed string) context.Context {
	if r.Tracer == nil {
		return ctx
	}
	progress := s.run.Progress(current.Name)
	span := tracing.Span{
		Name: current.Name, Part: part(progress), Start: progress.StartTime.Time, End: r.Clock.Now(), Failed: failed,
		Attributes: append(stepAttributes(s.run, current), tracing.OutcomeKey.String(string(progress.Outcome))),
	}
	// The record has whole seconds: who has seen the begin knows better.
	if s.began.Truncate(time.Second).Equal(span.Start) {
		span.Start = s.began
	}
	return r.Tracer.Child(r.Tracer.Join(ctx, tracing.OfRun(string(s.run.UID))), span)
}

// traceAttempt tells an attempt that failed. One that only waits is none: an approval is
// looked at every minute. Of those in a row that reached nothing the first is told.
func (r *Reconciler) traceAttempt(ctx context.Context, in step.Input, began time.Time, err error) {
	if r.Tracer == nil || err == nil || ctx.Err() != nil {
		return
	}
	if last, _ := r.attempts.last(in.Run, in.Step); last.misses > 0 && step.IsUnreached(err) {
		return
	}
	r.Tracer.Child(r.Tracer.Within(ctx, tracing.OfRun(string(in.Run.UID)), part(&in.Progress)), tracing.Span{
		Name: "attempt", Start: began, End: r.Clock.Now(), Failed: err.Error(), Attributes: stepAttributes(in.Run, in.Step),
	})
}

// traceRun tells the root of a run that has ended: when it has succeeded, and again when a
// changed policy gave it more steps then; or when it was given up.
func (r *Reconciler) traceRun(ctx context.Context, s *scope, failed string) {
	if r.Tracer == nil {
		return
	}
	r.Tracer.Root(ctx, tracing.OfRun(string(s.run.UID)), tracing.Span{
		Name: "run " + string(s.run.Spec.Hook), Start: s.run.CreationTimestamp.Time, End: r.Clock.Now(), Failed: failed, Attributes: runAttributes(s.run),
	})
}

// traceCancel tells a run that was given up, with the step that was under way. One that had
// succeeded is told already.
func (r *Reconciler) traceCancel(ctx context.Context, s *scope, current *lifecyclev1.Step) {
	if r.Tracer == nil || current == nil {
		return
	}
	if progress := s.run.Progress(current.Name); progress != nil && progress.Outcome == "" {
		r.traceStep(ctx, s, current, s.run.Spec.Cancelled)
	}
	r.traceRun(ctx, s, s.run.Spec.Cancelled)
}

// part is a step, each time that it is begun anew.
func part(progress *lifecyclev1.StepProgress) string {
	return fmt.Sprintf("%s/%d", progress.Name, progress.Attempt)
}

func runAttributes(run *lifecyclev1.LifecycleRun) []attribute.KeyValue {
	return []attribute.KeyValue{
		tracing.NamespaceKey.String(run.Namespace), tracing.ClusterKey.String(run.Spec.ClusterName), tracing.PolicyKey.String(run.Spec.PolicyName),
		tracing.RunKey.String(run.Name), tracing.HookKey.String(string(run.Spec.Hook)),
	}
}

func stepAttributes(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) []attribute.KeyValue {
	return append(runAttributes(run), tracing.StepKey.String(s.Name), tracing.KindKey.String(step.Of(s).Name()))
}
