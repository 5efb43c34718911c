package manager

import (
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/internal/controller/agentrelease"
	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/controller/hostmachine"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinepool"
)

// Every controller's metrics are served: a second registration finds the first.
func TestMetricsAreRegistered(t *testing.T) {
	reader := fake.NewClientBuilder().Build()
	if err := registerMetrics(reader, nil); err != nil {
		t.Fatal(err)
	}
	for _, collector := range slices.Concat(hostmachine.Collectors(reader), hostmachinepool.Collectors(), extensionconfig.Collectors(), host.Collectors(reader), agentrelease.Collectors()) {
		var already prometheus.AlreadyRegisteredError
		if err := metrics.Registry.Register(collector); !errors.As(err, &already) {
			t.Errorf("%v was not registered (%v)", describe(collector), err)
		}
	}
}

func describe(c prometheus.Collector) *prometheus.Desc {
	ch := make(chan *prometheus.Desc, 1)
	c.Describe(ch)
	return <-ch
}
