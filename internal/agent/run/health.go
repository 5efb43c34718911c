package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/vip"
)

// healthServer serves /healthz, /readyz and /metrics of the agent on a loopback address
// or a unix socket.
type healthServer struct {
	// Version of the agent.
	Version string
	// Journal of the agent.
	Journal *journal.Journal
	// LastHeartbeat returns when the server last accepted one; zero if never.
	LastHeartbeat func() time.Time
	// LeaseDuration returns after how long the agent counts as away.
	LeaseDuration func() time.Duration
	// VirtualIP of the control plane. May be nil.
	VirtualIP virtualIPMetrics
	// CertificateExpires returns the end of the client certificate.
	CertificateExpires func() time.Time
}

// virtualIPMetrics tells what the host does about the control-plane address.
type virtualIPMetrics interface {
	Status() vip.Status
	Counters() vip.Counters
}

// serve blocks until the context ends. The address is as in the configuration.
func (s healthServer) serve(ctx context.Context, address string) error {
	listener, err := listen(address)
	if err != nil {
		return fmt.Errorf("serve health on %s: %w", address, err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func listen(address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if !isUnix {
		return net.Listen("tcp", address)
	}
	// A socket of an agent that was killed is in the way.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

func (s healthServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		last := s.LastHeartbeat()
		if last.IsZero() || time.Since(last) > s.LeaseDuration() {
			http.Error(w, "no fresh heartbeat", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, s.metrics())
	})
	return mux
}

// metrics in the text format of Prometheus.
func (s healthServer) metrics() string {
	var b strings.Builder
	gauge := func(name, help, labels string, value float64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s%s %g\n", name, help, name, name, labels, value)
	}
	counter := func(name, help string, value int64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s counter\n%s %d\n", name, help, name, name, value)
	}
	state := s.Journal.State()
	gauge("slipway_agent_info", "Version of the agent.", fmt.Sprintf("{version=%q}", s.Version), 1)
	gauge("slipway_agent_certificate_expiry_timestamp_seconds", "End of the client certificate.", "", float64(s.CertificateExpires().Unix()))
	if last := s.LastHeartbeat(); !last.IsZero() {
		gauge("slipway_agent_last_heartbeat_timestamp_seconds", "Last heartbeat the server accepted.", "", float64(last.Unix()))
	}
	gauge("slipway_agent_claim_generation", "Newest claim generation the agent has acted for.", "", float64(state.ClaimGeneration))
	gauge("slipway_agent_clean", "1 when the host is proved clean.", "", boolean(state.CleanProof != nil))
	if op := state.Operation; op != nil {
		for _, name := range []infrav1.OperationState{infrav1.OperationRunning, infrav1.OperationSucceeded, infrav1.OperationFailed} {
			fmt.Fprintf(&b, "slipway_agent_operation{phase=%q,state=%q} %g\n", op.Phase, name, boolean(op.State == name))
		}
		gauge("slipway_agent_operation_failures", "Failed tries of the last operation.", "", float64(op.Failures))
		gauge("slipway_agent_operation_interruptions", "Tries of the last operation that a crash or reboot cut short.", "", float64(op.Interruptions))
	}
	if s.VirtualIP != nil {
		status, counters := s.VirtualIP.Status(), s.VirtualIP.Counters()
		gauge("slipway_agent_virtual_ip_candidate", "1 when the host may hold the control-plane address.", "", boolean(status.Address.IsValid()))
		gauge("slipway_agent_virtual_ip_held", "1 while the host has the control-plane address.", "", boolean(status.Held))
		gauge("slipway_agent_virtual_ip_problem", "1 while something stands in the way of the control-plane address.", "", boolean(status.Problem != ""))
		counter("slipway_agent_virtual_ip_takeovers_total", "Elections this host won.", counters.Takeovers)
		counter("slipway_agent_virtual_ip_losses_total", "Times this host gave up the address.", counters.Losses)
		counter("slipway_agent_virtual_ip_renew_failures_total", "Renewals of the election's Lease that failed.", counters.Failures)
	}
	return b.String()
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
