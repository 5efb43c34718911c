package hostmachine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var (
	machinesDesc = prometheus.NewDesc("slipway_hostmachines",
		"HostMachines by namespace, status and reason of their condition Ready: NoHostFits waits for a host.",
		[]string{"namespace", "ready", "reason"}, nil)
	claims = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_host_claims_total", Help: "Hosts claimed by HostMachines.",
	})
	claimConflicts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "slipway_host_claim_conflicts_total", Help: "Claims lost to another writer and begun anew.",
	})
	claimSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "slipway_host_claim_wait_seconds", Help: "Time from the creation of a HostMachine to its claim of a host.",
		// from a host that is free to one that somebody has to bring
		Buckets: []float64{0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600},
	})
)

// Collectors are the metrics of this controller, to be registered once. The reader should
// be cached: every scrape lists all HostMachines.
func Collectors(reader client.Reader) []prometheus.Collector {
	return []prometheus.Collector{machineCollector{reader}, claims, claimConflicts, claimSeconds}
}

type machineCollector struct{ reader client.Reader }

// Describe implements prometheus.Collector.
func (c machineCollector) Describe(ch chan<- *prometheus.Desc) { ch <- machinesDesc }

// Collect implements prometheus.Collector.
func (c machineCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	machines := &infrav1.HostMachineList{}
	if err := c.reader.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(machinesDesc, err)
		return
	}
	type group struct{ namespace, ready, reason string }
	counts := map[group]int{}
	for i := range machines.Items {
		g := group{namespace: machines.Items[i].Namespace}
		if ready := meta.FindStatusCondition(machines.Items[i].Status.Conditions, clusterv1.ReadyCondition); ready != nil {
			g.ready, g.reason = string(ready.Status), ready.Reason
		}
		counts[g]++
	}
	for g, n := range counts {
		ch <- prometheus.MustNewConstMetric(machinesDesc, prometheus.GaugeValue, float64(n), g.namespace, g.ready, g.reason)
	}
}
