package team

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of sign-ins.
const (
	succeeded = "succeeded"
	refused   = "refused"
	failed    = "failed"
)

var (
	// openSessions are those of this process.
	openSessions atomic.Pointer[sessions]

	signIns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_console_sign_ins_total",
		Help: "Sign-ins at the console by result: succeeded, refused (by the provider, or for what it answered) or failed (the provider or the management cluster did not answer).",
	}, []string{"result"})
	sessionCount = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_console_sessions",
		Help: "Sessions of the console that are open.",
	}, func() float64 {
		if s := openSessions.Load(); s != nil {
			return float64(s.count())
		}
		return 0
	})
)

// Collectors are the metrics of the console.
func Collectors() []prometheus.Collector { return []prometheus.Collector{signIns, sessionCount} }
