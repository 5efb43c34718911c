package program

import (
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Metrics serves the metrics of this process to whom the API server lets get their path, or
// to anybody when insecure. Who asks for OpenMetrics, as Prometheus does, gets the exemplars
// of histograms, which controller-runtime's own handler leaves out.
func Metrics(address string, insecure bool) metricsserver.Options {
	o := metricsserver.Options{BindAddress: address, SecureServing: !insecure, FilterProvider: anybody}
	if !insecure {
		o.FilterProvider = authorized
	}
	return o
}

func exposition() http.Handler {
	return promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true})
}

func anybody(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(logr.Logger, http.Handler) (http.Handler, error) { return exposition(), nil }, nil
}

func authorized(config *rest.Config, c *http.Client) (metricsserver.Filter, error) {
	ask, err := filters.WithAuthenticationAndAuthorization(config, c)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, _ http.Handler) (http.Handler, error) { return ask(log, exposition()) }, nil
}

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
