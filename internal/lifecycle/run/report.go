package run

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/tracing"
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

var (
	stepDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_lifecycle_step_duration_seconds",
		Help:    "Time from the first attempt of a step to its end, by kind and outcome.",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
	}, []string{"kind", "outcome"})
	attemptFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_lifecycle_attempt_failures_total",
		Help: "Failed attempts of steps that are repeated, by kind.",
	}, []string{"kind"})

	runsDesc = prometheus.NewDesc("slipway_lifecycle_runs",
		"LifecycleRuns by policy, hook and phase.", []string{"namespace", "policy", "hook", "phase"}, nil)
	blockedDesc = prometheus.NewDesc("slipway_lifecycle_blocked_seconds",
		"How long the current step of a run has held its cluster back.", []string{"namespace", "cluster", "policy", "hook", "step"}, nil)
)

// Collectors are the metrics of this package, to be registered once. Those that
// describe runs are computed from the reader, a cache, when they are collected.
func Collectors(reader client.Reader, clock clock.PassiveClock) []prometheus.Collector {
	return []prometheus.Collector{stepDuration, attemptFailures, &collector{reader: reader, clock: clock}}
}

type collector struct {
	reader client.Reader
	clock  clock.PassiveClock
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- runsDesc
	descs <- blockedDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	runs := &lifecyclev1.LifecycleRunList{}
	if err := c.reader.List(ctx, runs, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.Log.WithName("lifecyclerun").Error(err, "List LifecycleRuns for the metrics")
		return
	}
	type key struct{ namespace, policy, hook, phase string }
	counts := map[key]float64{}
	now := c.clock.Now()
	for i := range runs.Items {
		run := &runs.Items[i]
		spec := &run.Spec
		counts[key{run.Namespace, spec.PolicyName, string(spec.Hook), string(plan.Phase(run))}]++
		if since, step, blocked := blockedSince(run); blocked {
			metrics <- prometheus.MustNewConstMetric(blockedDesc, prometheus.GaugeValue, max(0, now.Sub(since).Seconds()),
				run.Namespace, spec.ClusterName, spec.PolicyName, string(spec.Hook), step)
		}
	}
	for k, n := range counts {
		metrics <- prometheus.MustNewConstMetric(runsDesc, prometheus.GaugeValue, n, k.namespace, k.policy, k.hook, k.phase)
	}
}

// blockedSince says since when a run holds its cluster back, and with which step.
func blockedSince(run *lifecyclev1.LifecycleRun) (time.Time, string, bool) {
	current := plan.Current(run)
	if current == nil || run.Spec.Cancelled != "" || run.Spec.Mode == lifecyclev1.ModeAudit || !run.Spec.Hook.Blocking() {
		return time.Time{}, "", false
	}
	since := run.CreationTimestamp.Time
	if progress := run.Progress(current.Name); progress != nil {
		since = progress.StartTime.Time
	}
	return since, current.Name, true
}

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
// succeeded is reported already.
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
