package run

import (
	"fmt"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// Metric is one that the agent serves, with the type and the help that Prometheus knows.
// Labels are the names of its labels, with commas between them.
type Metric struct{ Name, Labels, Type, Help string }

// Metrics are all that an agent serves. The library of Prometheus would cost each host
// more memory than the dozen figures are worth.
func Metrics() []Metric {
	all := make([]Metric, len(metrics))
	for i := range metrics {
		all[i] = metrics[i].Metric
	}
	return all
}

// observed is what the figures are taken from at a scrape.
type observed struct {
	server    healthServer
	state     journal.State
	operation *journal.Operation
	address   *vip.Status
	counters  vip.Counters
}

type metric struct {
	Metric
	// samples are labels, which may be empty, and figures; none while there is nothing to tell.
	samples func(observed) []sample
}

type sample struct {
	labels string
	value  float64
}

func one(value float64) []sample { return []sample{{value: value}} }

const gauge, counter = "gauge", "counter"

var metrics = []metric{
	{Metric{"slipway_agent_info", "version", gauge, "Version of the agent."}, func(o observed) []sample {
		return []sample{{fmt.Sprintf("{version=%q}", o.server.Version), 1}}
	}},
	{Metric{"slipway_agent_certificate_expiry_timestamp_seconds", "", gauge, "End of the client certificate."}, func(o observed) []sample {
		return one(float64(o.server.CertificateExpires().Unix()))
	}},
	{Metric{"slipway_agent_last_heartbeat_timestamp_seconds", "", gauge, "Last heartbeat the server accepted."}, func(o observed) []sample {
		last := o.server.LastHeartbeat()
		if last.IsZero() {
			return nil
		}
		return one(float64(last.Unix()))
	}},
	{Metric{"slipway_agent_claim_generation", "", gauge, "Newest claim generation the agent has acted for."}, func(o observed) []sample {
		return one(float64(o.state.ClaimGeneration))
	}},
	{Metric{"slipway_agent_clean", "", gauge, "1 when the host is proved clean."}, func(o observed) []sample {
		return one(boolean(o.state.CleanProof != nil))
	}},
	{Metric{"slipway_agent_operation", "phase,state", gauge, "1 for the state of the last operation, by phase and state."}, ofOperation(func(op *journal.Operation) []sample {
		var all []sample
		for _, state := range []infrav1.OperationState{infrav1.OperationRunning, infrav1.OperationSucceeded, infrav1.OperationFailed} {
			all = append(all, sample{fmt.Sprintf("{phase=%q,state=%q}", op.Phase, state), boolean(op.State == state)})
		}
		return all
	})},
	{Metric{"slipway_agent_operation_failures", "", gauge, "Failed tries of the last operation."}, ofOperation(func(op *journal.Operation) []sample {
		return one(float64(op.Failures))
	})},
	{Metric{"slipway_agent_operation_interruptions", "", gauge, "Tries of the last operation that a crash or reboot cut short."}, ofOperation(func(op *journal.Operation) []sample {
		return one(float64(op.Interruptions))
	})},
	{Metric{"slipway_agent_virtual_ip_candidate", "", gauge, "1 when the host may hold the control-plane address."}, ofAddress(func(s *vip.Status, _ vip.Counters) float64 {
		return boolean(s.Address.IsValid())
	})},
	{Metric{"slipway_agent_virtual_ip_held", "", gauge, "1 while the host has the control-plane address."}, ofAddress(func(s *vip.Status, _ vip.Counters) float64 {
		return boolean(s.Held)
	})},
	{Metric{"slipway_agent_virtual_ip_problem", "", gauge, "1 while something stands in the way of the control-plane address."}, ofAddress(func(s *vip.Status, _ vip.Counters) float64 {
		return boolean(s.Problem != "")
	})},
	{Metric{"slipway_agent_virtual_ip_takeovers_total", "", counter, "Elections this host won."}, ofAddress(func(_ *vip.Status, c vip.Counters) float64 {
		return float64(c.Takeovers)
	})},
	{Metric{"slipway_agent_virtual_ip_losses_total", "", counter, "Times this host gave up the address."}, ofAddress(func(_ *vip.Status, c vip.Counters) float64 {
		return float64(c.Losses)
	})},
	{Metric{"slipway_agent_virtual_ip_renew_failures_total", "", counter, "Renewals of the election's Lease that failed."}, ofAddress(func(_ *vip.Status, c vip.Counters) float64 {
		return float64(c.Failures)
	})},
}

func ofOperation(samples func(*journal.Operation) []sample) func(observed) []sample {
	return func(o observed) []sample {
		if o.operation == nil {
			return nil
		}
		return samples(o.operation)
	}
}

func ofAddress(value func(*vip.Status, vip.Counters) float64) func(observed) []sample {
	return func(o observed) []sample {
		if o.address == nil {
			return nil
		}
		return one(value(o.address, o.counters))
	}
}

// metrics in the text format of Prometheus.
func (s healthServer) metrics() string {
	o := observed{server: s, state: s.Journal.State()}
	o.operation = o.state.Operation
	if s.VirtualIP != nil {
		status := s.VirtualIP.Status()
		o.address, o.counters = &status, s.VirtualIP.Counters()
	}
	var b strings.Builder
	for i, m := range metrics {
		for j, sample := range metrics[i].samples(o) {
			if j == 0 {
				fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.Name, m.Help, m.Name, m.Type)
			}
			fmt.Fprintf(&b, "%s%s %g\n", m.Name, sample.labels, sample.value)
		}
	}
	return b.String()
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
