package extension

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/slipway-dev/slipway/sdk/extension"

// startSpan starts the span of a call as the child of the caller's, which came
// with the request in the form of W3C. Without a provider there are no spans.
func (s *Server) startSpan(r *http.Request, route *route) (*http.Request, trace.Span) {
	if s.tracer == nil {
		return r, nil
	}
	name := route.conversion.Newer().Name
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.tracer.Start(ctx, "serve "+name.Hook, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("runtime.hook", name.String()),
		attribute.String("runtime.handler", route.handler.name),
	))
	return r.WithContext(ctx), span
}

func endSpan(span trace.Span, code int, response hooksv1.ResponseObject) {
	if span == nil {
		return
	}
	defer span.End()
	if response == nil {
		span.SetStatus(codes.Error, "the server panicked")
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", code), attribute.String("runtime.status", string(response.GetStatus())))
	if code >= http.StatusInternalServerError || response.GetStatus() == hooksv1.ResponseStatusFailure {
		span.SetStatus(codes.Error, response.GetMessage())
	}
}
