package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestMetrics counts what operators look for: upstream's metrics under upstream's
// names, clamped wishes, ignored errors and calls to deprecated versions.
func TestMetrics(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success","retryAfterSeconds":-5}`))
	catalog := newCatalog(t)
	if err := host.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	config := hooktest.Config("ext", f.URL, f.CA.PEM)
	config = hooktest.Handler(config, capi.BeforeClusterCreate, "h", ignore, 5)
	config = hooktest.Handler(config, host.BeforeHostClaimV1Alpha1, "claim", fail, 5)
	metrics := prometheus.NewRegistry()
	c := newClient(t, client.Options{Catalog: catalog, Metrics: metrics}, config)
	if _, err := create(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call(t.Context(), c, host.BeforeHostClaim, "claim.ext", cluster(), &v1beta1.BeforeHostClaimRequest{}); err != nil {
		t.Fatal(err)
	}
	f.Set(hooktest.Drop())
	if _, err := create(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(f.URL, "https://")
	want := `
# HELP capi_runtime_sdk_requests_total Number of HTTP requests, partitioned by status code, host, hook and response status.
# TYPE capi_runtime_sdk_requests_total counter
capi_runtime_sdk_requests_total{code="200",group="hooks.infrastructure.slipway.dev",hook="BeforeHostClaim",host="` + address + `",status="Success",version="v1alpha1"} 1
capi_runtime_sdk_requests_total{code="200",group="hooks.runtime.cluster.x-k8s.io",hook="BeforeClusterCreate",host="` + address + `",status="Success",version="v1alpha1"} 1
capi_runtime_sdk_requests_total{code="<error>",group="hooks.runtime.cluster.x-k8s.io",hook="BeforeClusterCreate",host="` + address + `",status="Unknown",version="v1alpha1"} 1
# HELP runtime_client_breaker_open 1 while a handler is left alone after a failure, 0.5 while it is probed, 0 otherwise.
# TYPE runtime_client_breaker_open gauge
runtime_client_breaker_open{handler="h.ext"} 1
# HELP runtime_client_deprecated_calls_total Calls of handlers that implement a deprecated version of their hook.
# TYPE runtime_client_deprecated_calls_total counter
runtime_client_deprecated_calls_total{group="hooks.infrastructure.slipway.dev",handler="claim.ext",hook="BeforeHostClaim",version="v1alpha1"} 1
# HELP runtime_client_errors_ignored_total Calls that failed and were ignored by failure policy.
# TYPE runtime_client_errors_ignored_total counter
runtime_client_errors_ignored_total{handler="h.ext",reason="Unreachable"} 1
# HELP runtime_client_retry_after_clamped_total Responses whose retryAfterSeconds was outside of 1 s to 1 h, or that asked for a retry of a hook that does not block.
# TYPE runtime_client_retry_after_clamped_total counter
runtime_client_retry_after_clamped_total{handler="claim.ext"} 1
runtime_client_retry_after_clamped_total{handler="h.ext"} 1
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "capi_runtime_sdk_requests_total", "runtime_client_breaker_open",
		"runtime_client_deprecated_calls_total", "runtime_client_errors_ignored_total", "runtime_client_retry_after_clamped_total"); err != nil {
		t.Error(err)
	}
}

// TestIgnoreNeverSwallowsConversionErrors calls a handler of an older version whose
// conversion fails, in one direction and the other.
func TestIgnoreNeverSwallowsConversionErrors(t *testing.T) {
	gv := func(version string) schema.GroupVersion {
		return schema.GroupVersion{Group: "hooks.example.com", Version: version}
	}
	newer, older := hook.Define[req, resp](gv("v1"), "A", hook.Meta{}), hook.Define[req, resp](gv("v1alpha1"), "A", hook.Meta{})
	broken := errors.New("no such field")
	good := func(*req, *req) error { return nil }
	for name, convert := range map[string]struct {
		down func(*req, *req) error
		up   func(*resp, *resp) error
	}{
		"request":  {func(*req, *req) error { return broken }, func(*resp, *resp) error { return nil }},
		"response": {good, func(*resp, *resp) error { return broken }},
	} {
		t.Run(name, func(t *testing.T) {
			catalog := hook.NewCatalog()
			if err := errors.Join(catalog.Add(newer, older), hook.AddConversion(catalog, newer, older, convert.down, convert.up)); err != nil {
				t.Fatal(err)
			}
			f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success"}`))
			config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), older, "h", ignore, 5)
			c := newClient(t, client.Options{Catalog: catalog}, config)
			_, err := client.Call(t.Context(), c, newer, "h.ext", cluster(), &hooksv1.BeforeClusterCreateRequest{})
			var conversion *hook.ConversionError
			if !errors.As(err, &conversion) || !errors.Is(err, broken) {
				t.Errorf("got %v, want the error of the conversion", err)
			}
		})
	}
}
