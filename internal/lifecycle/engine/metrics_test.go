package engine

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/internal/program"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// What the extension server counts is served with the other metrics of the engine, also
// when there are two engines in a process.
func TestMetricsAreRegistered(t *testing.T) {
	certificates := t.TempDir()
	hooktest.NewCA(t).Files(certificates, "tls")
	for range 2 {
		o := program.Hooks{InsecureHooks: true}
		if _, err := o.NewHookServer(certificates, nil, logr.Discard()); err != nil {
			t.Fatal(err)
		}
		if err := registerMetrics(fake.NewClientBuilder().Build(), nil); err != nil {
			t.Fatal(err)
		}
	}
	all, ok := metrics.Registry.(*prometheus.Registry)
	if !ok {
		t.Fatalf("the registry is a %T", metrics.Registry)
	}
	descs := make(chan *prometheus.Desc, 1000)
	all.Describe(descs)
	close(descs)
	served := map[string]bool{}
	for desc := range descs {
		name, _, _ := strings.Cut(strings.TrimPrefix(desc.String(), `Desc{fqName: "`), `"`)
		served[name] = true
	}
	for _, name := range []string{"slipway_lifecycle_runs", "slipway_lifecycle_hook_duration_seconds", "runtime_extension_requests_total", "runtime_extension_request_duration_seconds"} {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}
