package manager

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
)

// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecycleruns,verbs=get;list;watch

var (
	hostStatesDesc = prometheus.NewDesc("slipway_host_states",
		"Hosts by namespace and the role of their state, as `slipway status` and the console have it: ok, work, wait, bad, free or off.", []string{"namespace", "role"}, nil)
	clusterStatesDesc = prometheus.NewDesc("slipway_cluster_states",
		"Clusters by namespace and the role of their state, as `slipway status` and the console have it: ok, work, wait, bad or off.", []string{"namespace", "role"}, nil)
)

// judged are the kinds from which the states of hosts and clusters follow, but for remarks.
var judged = []snapshot.Kind{
	snapshot.Clusters, snapshot.Machines, snapshot.HostClusters, snapshot.HostMachines, snapshot.HostMachinePools, snapshot.Hosts, snapshot.LifecycleRuns,
}

// Collectors are the metrics of states, to be registered once. The reader should be cached.
func Collectors(reader client.Reader) []prometheus.Collector {
	return []prometheus.Collector{stateCollector{reader, time.Now}}
}

// stateCollector counts hosts and clusters by their states, which it judges at each scrape.
type stateCollector struct {
	reader client.Reader
	now    func() time.Time
}

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- hostStatesDesc
	ch <- clusterStatesDesc
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	read, err := snapshot.ReadAll(ctx, c.reader, "", judged...)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(hostStatesDesc, err)
		return
	}
	s := &doctor.Snapshot{Snapshot: *read, Now: c.now()}
	states := status.Judge(s)
	type group struct {
		desc      *prometheus.Desc
		namespace string
		role      status.Role
	}
	counts := map[group]int{}
	for i := range s.Hosts {
		counts[group{hostStatesDesc, s.Hosts[i].Namespace, states.Host(&s.Hosts[i]).Role}]++
	}
	for i := range s.Clusters {
		counts[group{clusterStatesDesc, s.Clusters[i].Namespace, states.Cluster(&s.Clusters[i]).Role}]++
	}
	for g, n := range counts {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(n), g.namespace, string(g.role))
	}
}
