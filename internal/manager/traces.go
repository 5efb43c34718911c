package manager

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/slipway-dev/slipway/internal/tracing/otlp"
	"github.com/slipway-dev/slipway/internal/version"
)

// setupTraces returns what makes spans: nil unless the environment or the options ask for
// them.
func setupTraces(ctx context.Context, mgr ctrl.Manager, o Options) (trace.TracerProvider, error) {
	if o.Tracer != nil {
		return o.Tracer, nil
	}
	provider, err := otlp.FromEnvironment(ctx, reportedBy, version.Version)
	if err != nil || provider == nil {
		return nil, err
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		if err := otlp.Flush(ctx, provider); err != nil {
			ctrl.LoggerFrom(ctx).Info("The last spans did not reach the collector", "err", err)
		}
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("add the export of traces: %w", err)
	}
	return provider, nil
}
