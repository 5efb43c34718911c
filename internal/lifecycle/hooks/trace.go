package hooks

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/internal/tracing"
)

// Attributes of what is answered, beside those of the SDK.
const (
	answerKey     = attribute.Key("slipway.answer")
	retryAfterKey = attribute.Key("runtime.retry_after_seconds")
)

// tell writes what was asked and what is answered into the span of the call, which the SDK
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
