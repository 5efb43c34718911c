package tracing

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/slipway-dev/slipway/internal/tracing"

// Attributes of spans. They are the keys of logs, with a prefix.
const (
	NamespaceKey   = attribute.Key("k8s.namespace.name")
	ClusterKey     = attribute.Key("slipway.cluster")
	HostMachineKey = attribute.Key("slipway.hostmachine")
	HostKey        = attribute.Key("slipway.host")
	ClaimKey       = attribute.Key("slipway.claim")
	OperationKey   = attribute.Key("slipway.operation")
	PhaseKey       = attribute.Key("slipway.phase")
	ReasonKey      = attribute.Key("slipway.reason")
	PolicyKey      = attribute.Key("slipway.lifecyclepolicy")
	RunKey         = attribute.Key("slipway.lifecyclerun")
	HookKey        = attribute.Key("slipway.hook")
	StepKey        = attribute.Key("slipway.step")
	KindKey        = attribute.Key("slipway.kind")
	OutcomeKey     = attribute.Key("slipway.outcome")
)

// Trace names a trace and its root.
type Trace string

// OfClaim is the trace of the claim of a host, up to its Node.
func OfClaim(claimID string) Trace { return Trace("claim/" + claimID) }

// OfOperation is the trace of an operation that is no part of becoming a node.
func OfOperation(operationID string) Trace { return Trace("operation/" + operationID) }

// OfRun is the trace of a LifecycleRun, by its UID.
func OfRun(uid string) Trace { return Trace("run/" + uid) }

// ids are those of the root.
func (t Trace) ids() (trace.TraceID, trace.SpanID) {
	sum := sha256.Sum256([]byte("slipway.dev/" + t))
	return trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])
}

// Link leads to the root, from a span of another trace.
func (t Trace) Link(attributes ...attribute.KeyValue) trace.Link {
	traceID, root := t.ids()
	return trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: root}), Attributes: attributes}
}

// Span is one that is told after it has ended.
type Span struct {
	Name string
	// Part names a child of a root that has children of its own: Within joins it before it
	// is told. Empty for others.
	Part       string
	Start, End time.Time
	// Failed is why it failed; empty when it did not.
	Failed     string
	Attributes []attribute.KeyValue
}

// Tracer makes spans; nil makes none.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer of a provider that NewProvider has made. Without one there are no
// spans.
func New(provider trace.TracerProvider) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{provider.Tracer(scope)}
}

// Join returns a context whose spans are children of the root of a trace.
func (t *Tracer) Join(ctx context.Context, of Trace) context.Context {
	if t == nil {
		return ctx
	}
	// It is not ended, so that nothing is told of it: Root does.
	ctx, _ = t.tracer.Start(context.WithValue(ctx, rootKey{}, of), string(of), trace.WithNewRoot())
	return ctx
}

// Within returns a context whose spans are children of a part of a trace, whether that is
// told already or not.
func (t *Tracer) Within(ctx context.Context, of Trace, part string) context.Context {
	if t == nil {
		return ctx
	}
	root := trace.SpanContextFromContext(t.Join(ctx, of))
	return trace.ContextWithSpanContext(ctx, root.WithSpanID(partID(root.TraceID(), part)))
}

// Root tells the root of a trace. It returns a context for more children.
func (t *Tracer) Root(ctx context.Context, of Trace, s Span) context.Context {
	if t == nil {
		return ctx
	}
	return t.tell(context.WithValue(ctx, rootKey{}, of), s, trace.WithNewRoot())
}

// Child tells a child of the span in a context. It returns a context for its own children.
func (t *Tracer) Child(ctx context.Context, s Span) context.Context {
	if t == nil {
		return ctx
	}
	return t.tell(ctx, s)
}

func (t *Tracer) tell(ctx context.Context, s Span, options ...trace.SpanStartOption) context.Context {
	// Its own children are no part of that name.
	_, span := t.tracer.Start(context.WithValue(ctx, partKey{}, s.Part), s.Name,
		append(options, trace.WithTimestamp(s.Start), trace.WithAttributes(s.Attributes...))...)
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	// Clocks of two machines: nothing ends before it began.
	if s.End.Before(s.Start) {
		s.End = s.Start
	}
	span.End(trace.WithTimestamp(s.End))
	return trace.ContextWithSpan(ctx, span)
}

// Exemplar is what a histogram keeps of an observation to find its trace by: nil for none,
// or none that is kept.
func Exemplar(ctx context.Context) map[string]string {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && span.HasTraceID() {
		return map[string]string{"trace_id": span.TraceID().String()}
	}
	return nil
}

// Observe adds a duration to a histogram, in seconds, with what Exemplar returned.
func Observe(h prometheus.Observer, took time.Duration, exemplar map[string]string) {
	if exemplars, ok := h.(prometheus.ExemplarObserver); ok {
		exemplars.ObserveWithExemplar(took.Seconds(), exemplar)
	}
}
