package docs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/slipway-dev/slipway/internal/agent/run"
	"github.com/slipway-dev/slipway/internal/bundleserver"
	"github.com/slipway-dev/slipway/internal/console/team"
	"github.com/slipway-dev/slipway/internal/controller/agentrelease"
	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/controller/hostmachine"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinepool"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	lifecyclerun "github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/program"
	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

const metricsPage = "docs/metrics.md"

// planeMetrics are in a module that this one may not import; plane/internal/capi and plane/internal/serve register
// them.
const planeMetrics = "| the plane | `slipway_plane_last_backup_timestamp_seconds` | gauge | When the last backup of the plane was made; 0 when there is none. |\n" +
	"| the plane | `slipway_plane_api_requests_total{provider,method,resource}` | counter | Requests to the management API by provider, HTTP method and resource. A watch counts when it begins. |\n"

// The reference of the metrics is what the processes register, with their own words.
func TestMetricsReference(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Metrics reference\n\nEvery metric of this project, written by `make docs` from the code. " +
		"[Observability](observability.md) says where they are served and which to alert on.\n" +
		"A plane of `slipway up` serves all but the agents'. SDK server and SDK client are every extension and caller built with the SDK, slipway-lifecycle and slipway-manager among them.\n\n" +
		"| served by | metric | type | meaning |\n|---|---|---|---|\n")
	for _, section := range []struct {
		by         string
		collectors []prometheus.Collector
	}{
		{"slipway-manager", slices.Concat(host.Collectors(nil), manager.Collectors(nil), bundleserver.Collectors(), agentrelease.Collectors(), hostmachine.Collectors(nil), hostmachinepool.Collectors(), extensionconfig.Collectors())},
		{"slipway-lifecycle", slices.Concat(hooks.Collectors(), lifecyclerun.Collectors(nil, clock.RealClock{}))},
		{"slipway-console", team.Collectors()},
		{"slipway-manager, slipway-lifecycle", program.WatchCollectors()},
		{"SDK server", registered(t, func(r *prometheus.Registry) error {
			_, err := extension.New(extension.Options{Metrics: r})
			return err
		})},
		{"SDK client", registered(t, func(r *prometheus.Registry) error {
			_, err := client.New(client.Options{Catalog: hook.NewCatalog(), Registry: registry.New(registry.Options{}), Metrics: r})
			return err
		})},
	} {
		for _, m := range metricsOf(t, section.collectors) {
			fmt.Fprintf(&page, "| %s | `%s` | %s | %s |\n", section.by, m.signature(), m.kind, m.help)
		}
	}
	for _, m := range run.Metrics() {
		fmt.Fprintf(&page, "| slipway-agent | `%s` | %s | %s |\n", described{name: m.Name, labels: m.Labels}.signature(), m.Type, m.Help)
	}
	page.WriteString(planeMetrics)
	compare(t, metricsPage, []byte(page.String()))
}

// described is what a collector says of one of its metrics.
type described struct{ name, labels, kind, help string }

func (m described) signature() string {
	if m.labels == "" {
		return m.name
	}
	return m.name + "{" + m.labels + "}"
}

// description is how a Desc prints itself: it has no accessors.
var description = regexp.MustCompile(`^Desc{fqName: "([^"]+)", help: "(.*)", constLabels: {}, variableLabels: {(.*)}}$`)

// units that the names of histograms end with, as Prometheus wants them.
var units = []string{"_seconds", "_bytes"}

func metricsOf(t *testing.T, collectors []prometheus.Collector) []described {
	t.Helper()
	var all []described
	for _, c := range collectors {
		descs := make(chan *prometheus.Desc, 20)
		c.Describe(descs)
		close(descs)
		for desc := range descs {
			parts := description.FindStringSubmatch(desc.String())
			if parts == nil {
				t.Fatalf("a metric describes itself as %s", desc)
			}
			m := described{parts[1], parts[3], kindOf(c, parts[1]), parts[2]}
			if strings.HasSuffix(m.name, "_total") != (m.kind == "counter") {
				t.Errorf("%s is a %s: the names of counters, and of nothing else, end with _total", m.name, m.kind)
			}
			if m.kind == "histogram" && !slices.ContainsFunc(units, func(unit string) bool { return strings.HasSuffix(m.name, unit) }) {
				t.Errorf("the name of the histogram %s ends with none of %v", m.name, units)
			}
			if m.help == "" {
				t.Errorf("%s has no help", m.name)
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b described) int { return cmp.Compare(a.name, b.name) })
	return all
}

// kindOf is gauge for collectors of this project: they look at objects when they are asked.
// A registry does not tell what was registered; the names do.
func kindOf(c prometheus.Collector, name string) string {
	switch c.(type) {
	case prometheus.Gauge: // which can all that a counter can
		return "gauge"
	case prometheus.Counter, *prometheus.CounterVec:
		return "counter"
	case prometheus.Histogram, *prometheus.HistogramVec:
		return "histogram"
	case *prometheus.Registry:
		switch {
		case strings.HasSuffix(name, "_total"):
			return "counter"
		case strings.HasSuffix(name, "_duration_seconds"):
			return "histogram"
		}
	}
	return "gauge"
}

// registered is what something registers.
func registered(t *testing.T, register func(*prometheus.Registry) error) []prometheus.Collector {
	t.Helper()
	r := prometheus.NewRegistry()
	if err := register(r); err != nil {
		t.Fatal(err)
	}
	return []prometheus.Collector{r}
}
