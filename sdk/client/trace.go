package client

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/slipway-dev/slipway/sdk/client"

// startSpan starts the span of a call. Without a provider there are no spans.
func (c *Client) startSpan(ctx context.Context, r *registry.Registration, name hook.GroupVersionHook) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, nil
	}
	ctx, span := c.tracer.Start(ctx, "call "+name.Hook, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("runtime.hook", name.String()),
		attribute.String("runtime.handler", r.Name),
		attribute.String("server.address", r.URL.Host),
	))
	return ctx, span
}

// inject carries the span to the extension in the form of W3C.
func inject(ctx context.Context, span trace.Span, header http.Header) {
	if span != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	}
}

func endSpan(span trace.Span, code int, err error) {
	if span == nil {
		return
	}
	if code != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", code))
	}
	if err != nil {
		text := describe(err)
		var callErr *CallError
		if errors.As(err, &callErr) {
			text = callErr.message
		}
		span.SetStatus(codes.Error, text)
	}
	span.End()
}
