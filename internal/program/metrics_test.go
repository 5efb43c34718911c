package program

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// A replica tells nothing of the objects until it leads.
func TestWhileElected(t *testing.T) {
	elected := make(chan struct{})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "hosts", Help: "Hosts."})
	c := WhileElected(elected, gauge)[0]
	if n := testutil.CollectAndCount(c); n != 0 {
		t.Errorf("%d figures of a replica that does not lead", n)
	}
	close(elected)
	if n := testutil.CollectAndCount(c); n != 1 {
		t.Errorf("%d figures of the leader, want 1", n)
	}
	// The registry knows it as the collector that it wraps.
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	if err := registry.Register(gauge); err == nil {
		t.Error("registered twice")
	}
}

// Exemplars, which lead from a figure to its trace, come out of the process that has them.
func TestExemplarsAreServed(t *testing.T) {
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "test_took_seconds", Help: "Time."})
	metrics.Registry.MustRegister(took)
	defer metrics.Registry.Unregister(took)
	took.(prometheus.ExemplarObserver).ObserveWithExemplar(1, prometheus.Labels{"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"})
	request, response := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil), httptest.NewRecorder()
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3")
	exposition().ServeHTTP(response, request)
	if want := `# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 1.0`; !strings.Contains(response.Body.String(), want) {
		t.Errorf("no %s in\n%s", want, response.Body)
	}
}
