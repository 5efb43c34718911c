package agentrelease

import (
	"github.com/prometheus/client_golang/prometheus"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agentrollout"
)

var (
	hostsGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_agent_release_hosts", Help: "Hosts that the rollout of an AgentRelease takes in, by state of their agent: updated, failed or pending.",
	}, []string{"release", "state"})
	haltedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_agent_release_halted", Help: "1 while the rollout of an AgentRelease is halted, because a host went back to the agent that it had.",
	}, []string{"release"})
)

// Collectors are the metrics of this controller, to be registered once.
func Collectors() []prometheus.Collector { return []prometheus.Collector{hostsGauge, haltedGauge} }

// observe keeps the series of the release that is rolled out. Another has none: it counts
// no hosts.
func observe(release string, plan agentrollout.Plan) {
	if plan.Condition.Reason == infrav1.AgentReleaseNotOfManagerReason {
		forgetMetrics(release)
		return
	}
	for state, n := range map[string]int32{"updated": plan.Updated, "failed": plan.Failed, "pending": plan.Hosts - plan.Updated - plan.Failed} {
		hostsGauge.WithLabelValues(release, state).Set(float64(n))
	}
	halted := 0.0
	if plan.Condition.Reason == infrav1.AgentReleaseHaltedReason {
		halted = 1
	}
	haltedGauge.WithLabelValues(release).Set(halted)
}

func forgetMetrics(release string) {
	hostsGauge.DeletePartialMatch(prometheus.Labels{"release": release})
	haltedGauge.DeleteLabelValues(release)
}
