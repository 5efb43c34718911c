package otlp_test

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/tracing/otlp"
)

// Without an endpoint there are no traces, and a setting that cannot be kept is told rather
// than left out.
func TestEnvironment(t *testing.T) {
	const endpoint, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for name, c := range map[string]struct {
		env map[string]string
		on  bool
		err string
	}{
		"nothing":         {},
		"an endpoint":     {env: map[string]string{endpoint: "http://127.0.0.1:1"}, on: true},
		"one for traces":  {env: map[string]string{traces: "https://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, on: true},
		"the SDK is off":  {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}},
		"no exporter":     {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		"another one":     {env: map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "zipkin"}, err: `OTEL_TRACES_EXPORTER is "zipkin"`},
		"without scheme":  {env: map[string]string{endpoint: "collector:4317"}, err: `OTEL_EXPORTER_OTLP_ENDPOINT is "collector:4317"; use an address like`},
		"by HTTP":         {env: map[string]string{endpoint: "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, err: "traces are sent by grpc only"},
		"traces by grpc":  {env: map[string]string{endpoint: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, on: true},
		"bad attributes":  {env: map[string]string{endpoint: "http://c:4317", "OTEL_RESOURCE_ATTRIBUTES": "rack"}, err: "OTEL_RESOURCE_ATTRIBUTES"},
		"attributes, too": {env: map[string]string{endpoint: "http://c:4317", "OTEL_RESOURCE_ATTRIBUTES": "rack=r1", "OTEL_SERVICE_NAME": "edge"}, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			provider, err := otlp.FromEnvironment(t.Context(), "slipway-manager", "v1")
			switch {
			case c.err == "" && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("err = %v, want %q", err, c.err)
			case (provider != nil) != c.on:
				t.Errorf("provider %v, want one: %t", provider, c.on)
			}
			if provider != nil {
				if err := provider.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
