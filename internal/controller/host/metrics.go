package host

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var hostsDesc = prometheus.NewDesc("slipway_hosts", "Hosts by namespace and phase.", []string{"namespace", "phase"}, nil)

// phaseCollector counts the hosts of the cache at each scrape, so that the figures
// can't drift from the objects.
type phaseCollector struct{ reader client.Reader }

// NewCollector returns the metrics of this controller. The reader should be
// cached: every scrape lists all hosts.
func NewCollector(reader client.Reader) prometheus.Collector { return phaseCollector{reader} }

// Describe implements prometheus.Collector.
func (c phaseCollector) Describe(ch chan<- *prometheus.Desc) { ch <- hostsDesc }

// Collect implements prometheus.Collector.
func (c phaseCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	hosts := &infrav1.HostList{}
	if err := c.reader.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(hostsDesc, err)
		return
	}
	type key struct{ namespace, phase string }
	counts := map[key]int{}
	for i := range hosts.Items {
		counts[key{hosts.Items[i].Namespace, string(hosts.Items[i].Status.Phase)}]++
	}
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(hostsDesc, prometheus.GaugeValue, float64(n), k.namespace, k.phase)
	}
}
