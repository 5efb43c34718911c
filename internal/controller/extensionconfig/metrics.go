package extensionconfig

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/cluster-api/util/conditions"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

var (
	discoveries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_extension_discoveries_total", Help: "Discoveries of runtime extensions, by result.",
	}, []string{"kind", "name", "result"})
	discoveredGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_extension_discovered", Help: "1 if the last discovery of the extension succeeded, else 0.",
	}, []string{"kind", "name"})
	deprecatedHandlers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "slipway_extension_deprecated_handlers", Help: "Handlers of the extension that implement a deprecated version of their hook.",
	}, []string{"kind", "name"})
)

// Collectors are the metrics of this controller, to be registered once.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{discoveries, discoveredGauge, deprecatedHandlers}
}

// observe sets the metrics from the conditions.
func (r *Reconciler) observe(s *scope) {
	kind, name := r.Kind.Name, s.object.GetName()
	result, value := "failure", 0.0
	if c := conditions.Get(s.object, runtimev1alpha1.DiscoveredCondition); c != nil && c.Status == metav1.ConditionTrue {
		result, value = "success", 1
	}
	discoveries.WithLabelValues(kind, name, result).Inc()
	discoveredGauge.WithLabelValues(kind, name).Set(value)
	findings := hook.CheckUpgrade(r.Runtime.Catalog, "", registry.Uses(s.handlers()))
	deprecatedHandlers.WithLabelValues(kind, name).Set(float64(len(findings)))
}

func forgetMetrics(kind, name string) {
	labels := prometheus.Labels{"kind": kind, "name": name}
	discoveries.DeletePartialMatch(labels)
	discoveredGauge.DeletePartialMatch(labels)
	deprecatedHandlers.DeletePartialMatch(labels)
}
