package extension

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

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

// register replaces a collector by the one that another server of the process has registered.
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
