package program

import "github.com/prometheus/client_golang/prometheus"

// WhileElected are collectors that have something to tell in the replica that leads alone:
// every replica has the objects in its cache, and who adds up what all of them tell counts
// each object as often as there are replicas. The channel is that of Manager.Elected,
// which is closed at the start where nobody elects.
func WhileElected(elected <-chan struct{}, collectors ...prometheus.Collector) []prometheus.Collector {
	all := make([]prometheus.Collector, len(collectors))
	for i, c := range collectors {
		all[i] = whileElected{c, elected}
	}
	return all
}

type whileElected struct {
	prometheus.Collector
	elected <-chan struct{}
}

// Collect implements prometheus.Collector.
func (c whileElected) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-c.elected:
		c.Collector.Collect(ch)
	default:
	}
}
