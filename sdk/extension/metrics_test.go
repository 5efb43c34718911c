package extension_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-dev/slipway/sdk/extension"
)

// TestServersShareARegistry holds that two servers of one process may have one registry.
func TestServersShareARegistry(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if _, err := extension.New(extension.Options{Metrics: registry}); err != nil {
			t.Error(err)
		}
	}
}
