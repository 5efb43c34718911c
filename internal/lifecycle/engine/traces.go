package engine

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/tracing/otlp"
	"github.com/slipway-dev/slipway/internal/version"
)

// startTraces sets what makes spans, which stays nil unless the environment or the options
// ask for them, and returns what sends the last ones.
func startTraces(ctx context.Context, o *Options) (flush func(), _ error) {
	if o.Tracer != nil {
		return func() {}, nil
	}
	provider, err := otlp.FromEnvironment(ctx, reportedBy, version.Version)
	if err != nil || provider == nil {
		return func() {}, err
	}
	o.Tracer = provider
	return func() {
		if err := otlp.Flush(ctx, provider); err != nil {
			ctrl.LoggerFrom(ctx).Info("The last spans did not reach the collector", "err", err)
		}
	}, nil
}
