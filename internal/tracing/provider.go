package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// NewProvider returns a provider whose roots have the IDs of their trace, and whose parts
// have those of their name.
func NewProvider(options ...sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(generator{}))...)
}

// rootKey holds the Trace whose root is begun.
type rootKey struct{}

// partKey holds the part that is told; empty for a span that is none.
type partKey struct{}

// partID is the ID of a part of a trace.
func partID(of trace.TraceID, part string) trace.SpanID {
	sum := sha256.Sum256([]byte(of.String() + "/" + part))
	return trace.SpanID(sum[:8])
}

// generator implements sdktrace.IDGenerator: the IDs of the root of a Trace and of its
// parts, random ones for all other spans.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if of, ok := ctx.Value(rootKey{}).(Trace); ok {
		return of.ids()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // never fails
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(ctx context.Context, of trace.TraceID) trace.SpanID {
	if part, _ := ctx.Value(partKey{}).(string); part != "" {
		return partID(of, part)
	}
	var id trace.SpanID
	_, _ = rand.Read(id[:])
	return id
}
