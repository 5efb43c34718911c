package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// metrics are upstream's two, under the same names, and our own.
type metrics struct {
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	calls      *prometheus.HistogramVec
	ignored    *prometheus.CounterVec
	clamped    *prometheus.CounterVec
	deprecated *prometheus.CounterVec
	breaker    *prometheus.GaugeVec
	reloads    *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	const upstream, ours = "capi_runtime_sdk", "runtime_client"
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: upstream, Name: "requests_total",
			Help: "Number of HTTP requests, partitioned by status code, host, hook and response status.",
		}, []string{"code", "host", "group", "version", "hook", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: upstream, Name: "request_duration_seconds",
			Help: "Request duration in seconds, broken down by hook and host.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3,
				4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"host", "group", "version", "hook"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: ours, Name: "call_duration_seconds",
			Help:    "Time that a request to a handler took, by hook, version, handler and outcome (Success, Retry, Failure, Error). Exemplars name the trace.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"group", "version", "hook", "handler", "outcome"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: ours, Name: "errors_ignored_total",
			Help: "Calls that failed and were ignored by failure policy.",
		}, []string{"handler", "reason"}),
		clamped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: ours, Name: "retry_after_clamped_total",
			Help: "Responses whose retryAfterSeconds was outside of 1 s to 1 h, or that asked for a retry of a hook that does not block.",
		}, []string{"handler"}),
		deprecated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: ours, Name: "deprecated_calls_total",
			Help: "Calls of handlers that implement a deprecated version of their hook.",
		}, []string{"handler", "group", "version", "hook"}),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: ours, Name: "breaker_open",
			Help: "1 while a handler is left alone after a failure, 0.5 while it is probed, 0 otherwise.",
		}, []string{"handler"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: ours, Name: "certificate_reloads_total",
			Help: "Looks at the files of the client certificate when they were replaced, by result (success, error).",
		}, []string{"result"}),
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(
		register(registerer, &m.requests), register(registerer, &m.duration), register(registerer, &m.calls), register(registerer, &m.ignored),
		register(registerer, &m.clamped), register(registerer, &m.deprecated), register(registerer, &m.breaker),
		register(registerer, &m.reloads),
	)
}

// register replaces a collector by the one of the same name that is registered already, as when a
// process also runs upstream's client.
func register[C prometheus.Collector](registerer prometheus.Registerer, collector *C) error {
	err := registerer.Register(*collector)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := registered.ExistingCollector.(C); ok {
			*collector = same
			return nil
		}
	}
	return err
}

func (m *metrics) setBreaker(handler string, state BreakerState) {
	switch state {
	case BreakerClosed:
		m.breaker.WithLabelValues(handler).Set(0)
	case BreakerHalfOpen:
		m.breaker.WithLabelValues(handler).Set(0.5)
	case BreakerOpen:
		m.breaker.WithLabelValues(handler).Set(1)
	}
}

// observeCall records how a request to a handler ended, with the trace of which it is a
// part as exemplar when that is sampled: others cannot be looked up.
func (m *metrics) observeCall(handler string, name hook.GroupVersionHook, outcome string, duration time.Duration, of trace.SpanContext) {
	observer := m.calls.WithLabelValues(name.Group, name.Version, name.Hook, handler, outcome)
	if exemplars, ok := observer.(prometheus.ExemplarObserver); ok && of.IsSampled() && of.HasTraceID() {
		exemplars.ObserveWithExemplar(duration.Seconds(), prometheus.Labels{"trace_id": of.TraceID().String()})
		return
	}
	observer.Observe(duration.Seconds())
}

// outcome of a request: Error when there is no answer that decodes.
func outcome(response hooksv1.ResponseObject, err error) string {
	if err != nil || response == nil {
		return "Error"
	}
	if response.GetStatus() != hooksv1.ResponseStatusSuccess {
		return "Failure"
	}
	if blocking, ok := response.(hooksv1.RetryResponseObject); ok && blocking.GetRetryAfterSeconds() != 0 {
		return "Retry"
	}
	return "Success"
}

// observe counts a call with the HTTP status of its answer, zero if there was none.
func (m *metrics) observe(host string, code int, response hooksv1.ResponseObject, name hook.GroupVersionHook, duration time.Duration) {
	text, status := "<error>", "Unknown"
	if code != 0 {
		text = strconv.Itoa(code)
	}
	if response != nil && response.GetStatus() != "" {
		status = string(response.GetStatus())
	}
	m.requests.WithLabelValues(text, host, name.Group, name.Version, name.Hook, status).Inc()
	m.duration.WithLabelValues(host, name.Group, name.Version, name.Hook).Observe(duration.Seconds())
}

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/slipway-dev/slipway/sdk/client"

// startSpan starts the span of a call. Without a provider there are no spans.
func (c *Client) startSpan(ctx context.Context, r *registry.Registration, name hook.GroupVersionHook) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, nil
	}
	ctx, span := c.tracer.Start(ctx, "call "+name.Hook, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("runtime.hook", name.String()),
		attribute.String("runtime.handler", r.Name),
		attribute.String("server.address", r.URL.Host),
	))
	return ctx, span
}

// inject carries the span to the extension in the form of W3C.
func inject(ctx context.Context, span trace.Span, header http.Header) {
	if span != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	}
}

func endSpan(span trace.Span, code int, err error) {
	if span == nil {
		return
	}
	if code != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", code))
	}
	if err != nil {
		text := describe(err)
		var callErr *CallError
		if errors.As(err, &callErr) {
			text = callErr.message
		}
		span.SetStatus(codes.Error, text)
	}
	span.End()
}
