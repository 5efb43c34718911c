package tracing_test

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/slipway-dev/slipway/internal/tracing"
)

func record(sampler sdktrace.Sampler) (*tracing.Tracer, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return tracing.New(tracing.NewProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sampler))), recorder
}

// Processes that know nothing of each other add to one trace, and to no other one; the root
// is told by one of them, whenever it comes to that.
func TestOneTraceOfManyProcesses(t *testing.T) {
	begin := time.Now()
	first, told := record(sdktrace.AlwaysSample())
	first.Child(first.Join(t.Context(), tracing.OfClaim("a")), tracing.Span{Name: "claim a host", Start: begin, End: begin.Add(time.Second)})
	second, also := record(sdktrace.AlwaysSample())
	second.Root(t.Context(), tracing.OfClaim("a"), tracing.Span{Name: "provision a machine", Start: begin, End: begin.Add(time.Minute)})
	second.Root(t.Context(), tracing.OfOperation("a"), tracing.Span{Name: "operation Reset", Start: begin, End: begin})
	if len(told.Ended()) != 1 || len(also.Ended()) != 2 {
		t.Fatalf("told %d and %d spans, want 1 and 2: no root may be told twice", len(told.Ended()), len(also.Ended()))
	}
	child, root, other := told.Ended()[0], also.Ended()[0], also.Ended()[1]
	if child.Parent().SpanID() != root.SpanContext().SpanID() || child.SpanContext().TraceID() != root.SpanContext().TraceID() {
		t.Errorf("%v is not below %v", child.Parent(), root.SpanContext())
	}
	if root.Parent().IsValid() || root.EndTime().Sub(root.StartTime()) != time.Minute {
		t.Errorf("the root took %s below %v", root.EndTime().Sub(root.StartTime()), root.Parent())
	}
	if other.SpanContext().TraceID() == root.SpanContext().TraceID() {
		t.Error("an operation of the same name is in the trace of the claim")
	}
}

// A sampler by ratio keeps a trace whole or not at all, in every process, and exemplars
// name those that are kept.
func TestTracesAreKeptWhole(t *testing.T) {
	kept := 0
	for i := range 64 {
		of, whole := tracing.OfClaim(string(rune('a'+i))), 0
		for range 2 {
			tracer, told := record(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.5)))
			ctx := tracer.Child(tracer.Join(t.Context(), of), tracing.Span{Name: "claim a host"})
			tracer.Root(t.Context(), of, tracing.Span{Name: "provision a machine"})
			whole += len(told.Ended())
			if exemplar := tracing.Exemplar(ctx); (len(told.Ended()) > 0) != (exemplar["trace_id"] != "") {
				t.Errorf("%d spans kept, exemplar %v", len(told.Ended()), exemplar)
			}
		}
		if whole != 0 && whole != 4 {
			t.Errorf("%d of 4 spans of %s kept", whole, of)
		}
		kept += whole / 4
	}
	if kept == 0 || kept == 64 {
		t.Errorf("%d of 64 traces kept, want about half", kept)
	}
}

// Clocks of two machines: what ends before it began takes no time.
func TestSkewedClocks(t *testing.T) {
	begin := time.Now()
	tracer, told := record(sdktrace.AlwaysSample())
	tracer.Child(t.Context(), tracing.Span{Name: "baseline", Start: begin, End: begin.Add(-time.Hour), Failed: "StepFailed"})
	span := told.Ended()[0]
	if !span.EndTime().Equal(span.StartTime()) || span.Status().Description != "StepFailed" {
		t.Errorf("from %s to %s, status %+v", span.StartTime(), span.EndTime(), span.Status())
	}
}

func TestNoTracer(t *testing.T) {
	tracer := tracing.New(nil)
	ctx := context.WithValue(t.Context(), tracing.ClaimKey, "a")
	for _, got := range []context.Context{
		tracer.Join(ctx, tracing.OfClaim("a")), tracer.Child(ctx, tracing.Span{}), tracer.Root(ctx, tracing.OfClaim("a"), tracing.Span{}),
	} {
		if got != ctx {
			t.Error("a nil Tracer changed the context")
		}
	}
	if exemplar := tracing.Exemplar(ctx); exemplar != nil {
		t.Errorf("exemplar %v", exemplar)
	}
}
