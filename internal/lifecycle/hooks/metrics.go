package hooks

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/tracing"
)

var duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "slipway_lifecycle_hook_duration_seconds",
	Help:    "Time that the answer to a hook took, by hook and answer: Passed, Held or Error.",
	Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .5, 1, 5},
}, []string{"hook", "answer"})

// Collectors returns the metrics of the package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{duration} }

func answerOf(v verdict, err error) string {
	switch {
	case err != nil:
		return "Error"
	case v.after > 0:
		return "Held"
	}
	return "Passed"
}

// observe keeps the trace of the call as an exemplar, if it has one.
func observe(ctx context.Context, hook lifecyclev1.HookName, v verdict, err error, took time.Duration) {
	tracing.Observe(duration.WithLabelValues(string(hook), answerOf(v, err)), took, tracing.Exemplar(ctx))
}

// Attributes of what is answered, beside those of the SDK.
const (
	answerKey     = attribute.Key("slipway.answer")
	retryAfterKey = attribute.Key("runtime.retry_after_seconds")
)

// tell writes request and response into the span of the call, which the SDK
// has begun as a child of the caller's and ends with the status. A run has a trace of its
// own, since it outlives many calls: the span of each leads to it. Why a Cluster is held
// back says the run.
func tell(ctx context.Context, e event, v verdict, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var policies []string
	for _, run := range v.runs {
		policies = append(policies, run.Spec.PolicyName)
		span.AddLink(tracing.OfRun(string(run.UID)).Link(tracing.PolicyKey.String(run.Spec.PolicyName), tracing.RunKey.String(run.Name)))
	}
	span.SetAttributes(
		tracing.NamespaceKey.String(e.cluster.Namespace), tracing.ClusterKey.String(e.cluster.Name), tracing.HookKey.String(string(e.hook)),
		tracing.PolicyKey.StringSlice(policies), answerKey.String(answerOf(v, err)), retryAfterKey.Int64(int64(v.after.Seconds())),
	)
}
