package program

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/slipway-dev/slipway/sdk/listener"
)

// exposition serves the metrics of this process. Clients that accept OpenMetrics, as Prometheus does, get the exemplars
// of histograms, which controller-runtime's own handler leaves out.
func exposition() http.Handler {
	return promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, EnableOpenMetrics: true})
}

// authorized serves them to clients that the API server lets get the path.
func authorized(config *rest.Config, c *http.Client, log logr.Logger) (http.Handler, error) {
	filter, err := filters.WithAuthenticationAndAuthorization(config, c)
	if err != nil {
		return nil, err
	}
	all := exposition()
	return filter(log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listener.Identify(r.Context(), "authorized")
		all.ServeHTTP(w, r)
	}))
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

// RegisterMetrics serves collectors with those of the process. One that is registered already is no error:
// a process may run several managers.
func RegisterMetrics(collectors ...prometheus.Collector) error {
	for _, collector := range collectors {
		err := metrics.Registry.Register(collector)
		if _, registered := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !registered {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
