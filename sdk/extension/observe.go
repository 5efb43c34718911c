package extension

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// routeLogger returns what the loggers of all calls of a handler have in common.
func (s *Server) routeLogger(name hook.GroupVersionHook, handler string) logr.Logger {
	return s.options.Logger.WithValues("hook", name.Hook, "hookVersion", hook.APIVersion(name), "handler", handler)
}

// callLogger adds what tells a call from others, its object as controllers name it.
func callLogger(logger logr.Logger, call *Call) logr.Logger {
	if call.Object.IsZero() {
		return logger.WithValues("requestID", call.RequestID)
	}
	return logger.WithValues("requestID", call.RequestID, call.Object.Kind, klog.KRef(call.Object.Namespace, call.Object.Name))
}

// logOutcome tells what a handler answered. Only what succeeds is left to who asks for
// more than the usual.
func logOutcome(logger logr.Logger, response hooksv1.ResponseObject, err error, took time.Duration) {
	after := retryAfter(response)
	switch {
	case response.GetStatus() == hooksv1.ResponseStatusFailure && err != nil:
		logger.Error(err, "The handler returned an error", "duration", took)
	case response.GetStatus() == hooksv1.ResponseStatusFailure:
		logger.Info("The handler answered with Failure", "message", response.GetMessage(), "duration", took)
	case after != 0:
		logger.Info("The handler asks to be called again", "retryAfterSeconds", after, "message", response.GetMessage(), "duration", took)
	default:
		if verbose := logger.V(1); verbose.Enabled() {
			verbose.Info("The handler answered", "duration", took)
		}
	}
}

func retryAfter(response hooksv1.ResponseObject) int32 {
	if blocking, ok := response.(hooksv1.RetryResponseObject); ok {
		return blocking.GetRetryAfterSeconds()
	}
	return 0
}

const (
	// logAgain is how long a refusal is told once only.
	logAgain = time.Minute
	// maxRefusals bounds the refusals that are told within logAgain: whoever can
	// connect can cause them.
	maxRefusals = 256
)

// refusals tells of connections and requests that the server refused, each once in
// logAgain.
type refusals struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// due tells whether a refusal is to be told.
func (r *refusals) due(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if last, ok := r.told[key]; ok && now.Sub(last) < logAgain {
		return false
	}
	if r.told == nil {
		r.told = map[string]time.Time{}
	}
	if len(r.told) >= maxRefusals {
		maps.DeleteFunc(r.told, func(_ string, last time.Time) bool { return now.Sub(last) >= logAgain })
	}
	if len(r.told) >= maxRefusals {
		return false
	}
	r.told[key] = now
	return true
}

// hostOf is the address of a caller without the port, which is another one each time.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// connectionErrors is where net/http writes why there is no connection: a certificate
// that one of both sides does not trust is told nowhere else.
type connectionErrors struct{ server *Server }

var portOfCaller = regexp.MustCompile(`:[0-9]+: `)

// Write implements io.Writer.
func (c connectionErrors) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if c.server.refusals.due(portOfCaller.ReplaceAllString(text, ": ")) {
		c.server.options.Logger.Info("A connection was refused, or the caller refused it", "err", text)
	}
	return len(line), nil
}

func (s *Server) errorLog() *log.Logger { return log.New(connectionErrors{s}, "", 0) }

// handlerNames returns the names of the handlers in order.
func (s *Server) handlerNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.handlers))
}

type metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	panics    *prometheus.CounterVec
	running   prometheus.Gauge
	abandoned prometheus.Gauge
	reloads   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	const subsystem = "runtime_extension"
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "requests_total",
			Help: "Requests by HTTP code, hook, handler and status of the response.",
		}, []string{"code", "group", "version", "hook", "handler", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "request_duration_seconds",
			Help:    "Time from the first byte of a request's body to the last of its response.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"group", "version", "hook", "handler"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "panics_total", Help: "Panics of handlers.",
		}, []string{"handler"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "handlers_running", Help: "Handlers that run.",
		}),
		abandoned: prometheus.NewGauge(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "handlers_abandoned",
			Help: "Handlers that run on although their deadline has passed.",
		}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "certificate_reloads_total",
			Help: "Looks at files of certificates that were replaced, by result (success, error) and certificate (serving, client-ca).",
		}, []string{"certificate", "result"}),
	}
	return m, errors.Join(
		register(registerer, &m.requests), register(registerer, &m.duration), register(registerer, &m.panics),
		register(registerer, &m.running), register(registerer, &m.abandoned), register(registerer, &m.reloads))
}

// register replaces a collector by the one of the same name that is registered already, as when a
// process also runs another server.
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

// tracerName is the instrumentation scope of the spans.
const tracerName = "github.com/slipway-dev/slipway/sdk/extension"

// startSpan starts the span of a call as the child of the caller's, which came
// with the request in the form of W3C. Without a provider there are no spans.
func (s *Server) startSpan(r *http.Request, route *route) (*http.Request, trace.Span) {
	if s.tracer == nil {
		return r, nil
	}
	name := route.conversion.Newer().Name
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := s.tracer.Start(ctx, "serve "+name.Hook, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("runtime.hook", name.String()),
		attribute.String("runtime.handler", route.handler.name),
	))
	return r.WithContext(ctx), span
}

func endSpan(span trace.Span, code int, response hooksv1.ResponseObject) {
	if span == nil {
		return
	}
	defer span.End()
	if response == nil {
		span.SetStatus(codes.Error, "the server panicked")
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", code), attribute.String("runtime.status", string(response.GetStatus())))
	if code >= http.StatusInternalServerError || response.GetStatus() == hooksv1.ResponseStatusFailure {
		span.SetStatus(codes.Error, response.GetMessage())
	}
}

// tally is what has become of the calls of one handler.
type tally struct {
	calls, failed, blocked atomic.Int64
	// last and lastFailure are times in nanoseconds, zero for none.
	last, lastFailure atomic.Int64
}

// count adds a call that was answered.
func (t *tally) count(code int, response hooksv1.ResponseObject) {
	now := time.Now().UnixNano()
	t.calls.Add(1)
	t.last.Store(now)
	switch {
	case code != http.StatusOK || response.GetStatus() == hooksv1.ResponseStatusFailure:
		t.failed.Add(1)
		t.lastFailure.Store(now)
	case retryAfter(response) != 0:
		t.blocked.Add(1)
	}
}

// serveStatus tells people what the server serves and how it fares, as the z-pages of
// Kubernetes' components do. Texts of errors are in the log, not here.
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	handlers := maps.Clone(s.handlers)
	s.mu.Unlock()
	var page bytes.Buffer
	fmt.Fprintf(&page, "extension statusz\nWarning: This endpoint is not meant to be machine parseable.\n\nStarted: %s\nUp: %s\nReady: %s\nRunning handlers: %d of %d\n\n",
		s.started.UTC().Format(time.RFC3339), time.Since(s.started).Truncate(time.Second), s.readiness(r), len(s.slots), cap(s.slots))
	writeHandlers(&page, handlers)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(page.Bytes())
}

func (s *Server) readiness(r *http.Request) string {
	if err := s.Check(r); err != nil {
		return err.Error()
	}
	return "ok"
}

func writeHandlers(w io.Writer, handlers map[string]*handler) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HANDLER\tHOOK\tVERSION\tTIMEOUT\tFAILURE POLICY\tCALLS\tFAILED\tBLOCKED\tLAST CALL\tLAST FAILURE")
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		h := handlers[name]
		version := h.definition.Name.Version
		if h.definition.Meta.Deprecated() {
			version += " (deprecated)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", name, h.definition.Name.Hook, version, h.timeout, h.policy,
			h.tally.calls.Load(), h.tally.failed.Load(), h.tally.blocked.Load(), ago(h.tally.last.Load()), ago(h.tally.lastFailure.Load()))
	}
	_ = table.Flush()
}

// ago is how long a time lies back, in the way of kubectl.
func ago(nanoseconds int64) string {
	if nanoseconds == 0 {
		return "never"
	}
	return time.Since(time.Unix(0, nanoseconds)).Truncate(time.Second).String() + " ago"
}
