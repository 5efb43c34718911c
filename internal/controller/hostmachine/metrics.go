package hostmachine

import "github.com/prometheus/client_golang/prometheus"

var (
	claims = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_host_claims_total", Help: "Hosts claimed by HostMachines.",
	})
	claimConflicts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_host_claim_conflicts_total", Help: "Claims lost to another writer and begun anew.",
	})
	bootstrapFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_host_bootstrap_failures_total", Help: "Bootstraps that failed for good.",
	})
	bootstrapSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "slipway_host_bootstrap_seconds", Help: "Time from the begin of a bootstrap to its success, as the agent reports it.",
		Buckets: []float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600},
	})
)

// Collectors are the metrics of this controller, to be registered once.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{claims, claimConflicts, bootstrapFailures, bootstrapSeconds}
}
