package client_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestTrace follows a call from the caller's span into the handler.
func TestTrace(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	var inHandler trace.SpanContext
	ext := hooktest.Start(t, extension.Options{Tracer: provider}, func(s *extension.Server) error {
		return extension.Handle(s, capi.BeforeClusterCreate, "h", func(ctx context.Context, _ *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			inHandler = trace.SpanContextFromContext(ctx)
			return nil, nil
		})
	})
	config := hooktest.Handler(hooktest.Config("ext", ext.URL, ext.CA.PEM), capi.BeforeClusterCreate, "h", fail, 5)
	c := newClient(t, client.Options{Tracer: provider}, config)
	ctx, root := provider.Tracer("test").Start(t.Context(), "reconcile")
	if _, err := create(ctx, t, c); err != nil {
		t.Fatal(err)
	}
	root.End()
	_ = ext.Stop()
	spans := map[string]sdktrace.ReadOnlySpan{}
	for _, span := range recorder.Ended() {
		spans[span.Name()] = span
	}
	caller, server := spans["call BeforeClusterCreate"], spans["serve BeforeClusterCreate"]
	if caller == nil || server == nil {
		t.Fatalf("the spans are %v", spans)
	}
	if caller.Parent().SpanID() != root.SpanContext().SpanID() || server.Parent().SpanID() != caller.SpanContext().SpanID() {
		t.Error("the server's span is not below the caller's, or that not below the reconcile")
	}
	if inHandler.SpanID() != server.SpanContext().SpanID() || inHandler.TraceID() != root.SpanContext().TraceID() {
		t.Error("the handler does not see the span of its call")
	}
}
