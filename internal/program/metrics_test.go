package program

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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
