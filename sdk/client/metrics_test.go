package client_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
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
	config = hooktest.Handler(config, hooktest.Older(t, catalog, host.BeforeHostClaim, "v1alpha1"), "claim", fail, 5)
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

// Each way in which a request ends is counted for its hook, version and handler, and leads
// to a trace, if that is kept.
func TestCallsAreCountedByOutcome(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Drop())
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", ignore, 5)
	metrics := prometheus.NewRegistry()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	c := newClient(t, client.Options{Metrics: metrics, Tracer: provider}, config)
	kept, root := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "reconcile")
	defer root.End()
	for _, call := range []struct {
		ctx    context.Context
		answer string
	}{
		{kept, `{"status":"Success"}`}, {t.Context(), `{"status":"Success"}`},
		{t.Context(), `{"status":"Success","retryAfterSeconds":5}`}, {kept, `{"status":"Failure","message":"no"}`}, {kept, `{"status":`},
	} {
		f.Set(hooktest.Body(call.answer))
		_, _ = create(call.ctx, t, c)
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got, traces := map[string]uint64{}, map[string]string{}
	for _, family := range families {
		if family.GetName() != "runtime_client_call_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["handler"] != "h.ext" || labels["hook"] != "BeforeClusterCreate" || labels["version"] != "v1alpha1" || labels["group"] == "" {
				t.Errorf("the labels are %v", labels)
			}
			got[labels["outcome"]] = metric.GetHistogram().GetSampleCount()
			for _, bucket := range metric.GetHistogram().GetBucket() {
				for _, label := range bucket.GetExemplar().GetLabel() {
					traces[labels["outcome"]] = label.GetName() + "=" + label.GetValue()
				}
			}
		}
	}
	if want := map[string]uint64{"Success": 2, "Retry": 1, "Failure": 1, "Error": 1}; !maps.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	trace := "trace_id=" + root.SpanContext().TraceID().String()
	if want := map[string]string{"Success": trace, "Failure": trace, "Error": trace}; !maps.Equal(traces, want) {
		t.Errorf("exemplars %v, want %v", traces, want)
	}
}
