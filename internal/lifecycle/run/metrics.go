package run

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

var (
	stepDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_lifecycle_step_duration_seconds",
		Help:    "Time from the first attempt of a step to its end, by kind and outcome.",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
	}, []string{"kind", "outcome"})
	attemptFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_lifecycle_attempt_failures_total",
		Help: "Failed attempts of steps that are repeated, by kind.",
	}, []string{"kind"})

	runsDesc = prometheus.NewDesc("slipway_lifecycle_runs",
		"LifecycleRuns by policy, hook and phase.", []string{"namespace", "policy", "hook", "phase"}, nil)
	blockedDesc = prometheus.NewDesc("slipway_lifecycle_blocked_seconds",
		"How long the current step of a run has held its cluster back.", []string{"namespace", "cluster", "policy", "hook", "step"}, nil)
)

// Collectors are the metrics of this package, to be registered once. Those that
// describe runs are computed from the reader, a cache, when they are asked for.
func Collectors(reader client.Reader, clock clock.PassiveClock) []prometheus.Collector {
	return []prometheus.Collector{stepDuration, attemptFailures, &collector{reader: reader, clock: clock}}
}

type collector struct {
	reader client.Reader
	clock  clock.PassiveClock
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- runsDesc
	descs <- blockedDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	runs := &lifecyclev1.LifecycleRunList{}
	if err := c.reader.List(ctx, runs, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.Log.WithName("lifecyclerun").Error(err, "List LifecycleRuns for the metrics")
		return
	}
	type key struct{ namespace, policy, hook, phase string }
	counts := map[key]float64{}
	now := c.clock.Now()
	for i := range runs.Items {
		run := &runs.Items[i]
		spec := &run.Spec
		counts[key{run.Namespace, spec.PolicyName, string(spec.Hook), string(plan.Phase(run))}]++
		if since, step, blocked := blockedSince(run); blocked {
			metrics <- prometheus.MustNewConstMetric(blockedDesc, prometheus.GaugeValue, max(0, now.Sub(since).Seconds()),
				run.Namespace, spec.ClusterName, spec.PolicyName, string(spec.Hook), step)
		}
	}
	for k, n := range counts {
		metrics <- prometheus.MustNewConstMetric(runsDesc, prometheus.GaugeValue, n, k.namespace, k.policy, k.hook, k.phase)
	}
}

// blockedSince says since when a run holds its cluster back, and with which step.
func blockedSince(run *lifecyclev1.LifecycleRun) (time.Time, string, bool) {
	current := plan.Current(run)
	if current == nil || run.Spec.Cancelled != "" || run.Spec.Mode == lifecyclev1.ModeAudit || !run.Spec.Hook.Blocking() {
		return time.Time{}, "", false
	}
	since := run.CreationTimestamp.Time
	if progress := run.Progress(current.Name); progress != nil {
		since = progress.StartTime.Time
	}
	return since, current.Name, true
}
