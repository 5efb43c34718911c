package manager

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/tracing/otlp"
	"github.com/slipway-dev/slipway/internal/version"
)

// flushPatience is how long the end of the engine waits for a collector to take what is
// left.
const flushPatience = 5 * time.Second

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
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
		defer cancel()
		if err := provider.Shutdown(ending); err != nil {
			ctrl.LoggerFrom(ctx).Info("The last spans did not reach the collector", "err", err)
		}
	}, nil
}
