package hostmachinepool

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/pool"
)

var poolLabels = []string{"namespace", "pool"}

var (
	rollingOutGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_pool_rollout_in_progress", Help: "1 while a pool has machines of another version or revision.",
	}, poolLabels)
	pausedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_pool_rollout_paused", Help: "1 while a rollout is paused after a failure or without progress.",
	}, poolLabels)
	membersGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_pool_machines", Help: "Machines of a pool by state: available, unavailable or leaving.",
	}, append(poolLabels[:2:2], "state"))
	outdatedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_pool_outdated_machines", Help: "Machines of a pool that have another version or revision, without those that leave.",
	}, poolLabels)
)

// Collectors are the metrics of this controller, to be registered once.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{rollingOutGauge, pausedGauge, membersGauge, outdatedGauge}
}

func observe(s *scope) {
	key := client.ObjectKeyFromObject(s.pool)
	staying := s.plan.Updated + s.plan.Outdated
	for state, n := range map[string]int{"available": s.plan.Available, "unavailable": staying - s.plan.Available, "leaving": s.plan.Leaving} {
		membersGauge.WithLabelValues(key.Namespace, key.Name, state).Set(float64(n))
	}
	outdatedGauge.WithLabelValues(key.Namespace, key.Name).Set(float64(s.plan.Outdated))
	rollingOutGauge.WithLabelValues(key.Namespace, key.Name).Set(oneIf(s.plan.Outdated > 0))
	pausedGauge.WithLabelValues(key.Namespace, key.Name).Set(oneIf(s.plan.Pause != pool.Pause{}))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func forgetMetrics(key types.NamespacedName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "pool": key.Name}
	for _, gauge := range []*prometheus.GaugeVec{rollingOutGauge, pausedGauge, membersGauge, outdatedGauge} {
		gauge.DeletePartialMatch(labels)
	}
}
