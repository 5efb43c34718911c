package team

import "github.com/prometheus/client_golang/prometheus"

// Results of sign-ins.
const (
	succeeded = "succeeded"
	refused   = "refused"
	failed    = "failed"
)

var (
	signIns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_console_sign_ins_total",
		Help: "Sign-ins at the console by result: succeeded, refused (by the provider, or for what it answered) or failed (the provider or the management cluster did not answer).",
	}, []string{"result"})
	sessionCount = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "slipway_console_sessions",
		Help: "Sessions of the console that are open.",
	})
)

// Collectors are the metrics of the console.
func Collectors() []prometheus.Collector { return []prometheus.Collector{signIns, sessionCount} }
