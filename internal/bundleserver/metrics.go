package bundleserver

import "github.com/prometheus/client_golang/prometheus"

// metrics of one server.
type metrics struct {
	requests *prometheus.CounterVec
	sent     prometheus.Counter
	under    prometheus.GaugeFunc
}

func newMetrics(l *limits) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slipway_host_bundle_requests_total",
			Help: "Requests of hosts for host bundles by outcome: served, notFound, tooMany, denied, error."}, []string{"outcome"}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "slipway_host_bundle_sent_bytes_total", Help: "Content of host bundles that was sent to hosts, in bytes."}),
		under: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slipway_host_bundle_downloads", Help: "Downloads of host bundles that are under way."}, func() float64 {
			l.mu.Lock()
			defer l.mu.Unlock()
			return float64(l.total)
		}),
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.sent, m.under}
}

// Collectors are the metrics of the server.
func (s *Server) Collectors() []prometheus.Collector { return s.handler.metrics.collectors() }

// Collectors are the metrics of a server that serves nobody, by which they are documented.
func Collectors() []prometheus.Collector { return newMetrics(&limits{}).collectors() }
