package hooks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

var duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "slipway_lifecycle_hook_duration_seconds",
	Help:    "Time that the answer to a hook took, by hook and answer: Passed, Held or Error.",
	Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .5, 1, 5},
}, []string{"hook", "answer"})

// Collectors returns the metrics of the package.
func Collectors() []prometheus.Collector { return []prometheus.Collector{duration} }

func observe(hook lifecyclev1.HookName, v verdict, err error, took time.Duration) {
	answer := "Passed"
	switch {
	case err != nil:
		answer = "Error"
	case v.after > 0:
		answer = "Held"
	}
	duration.WithLabelValues(string(hook), answer).Observe(took.Seconds())
}
