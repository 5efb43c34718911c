package hooks

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/tracing"
)

var duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "slipway_lifecycle_hook_duration_seconds",
	Help:    "Time that the answer to a hook took, by hook and answer: Passed, Held or Error.",
	Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .5, 1, 5},
}, []string{"hook", "answer"})

// Collectors returns the metrics of the package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{duration} }

func answerOf(v verdict, err error) string {
	switch {
	case err != nil:
		return "Error"
	case v.after > 0:
		return "Held"
	}
	return "Passed"
}

// observe keeps the trace of the call as an exemplar, if it has one.
func observe(ctx context.Context, hook lifecyclev1.HookName, v verdict, err error, took time.Duration) {
	tracing.Observe(duration.WithLabelValues(string(hook), answerOf(v, err)), took, tracing.Exemplar(ctx))
}
