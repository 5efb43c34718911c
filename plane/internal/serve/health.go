package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/sdk/listener"
)

// backupAge is a metric of when the last backup of a plane was made.
func backupAge(stateDir string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_plane_last_backup_timestamp_seconds",
		Help: "When the last backup of the plane was made; 0 when there is none.",
	}, func() float64 {
		last, err := statedir.LastBackup(stateDir)
		if err != nil || last == nil {
			return 0
		}
		return float64(last.Created.Unix())
	})
}

// health is the component that serves /healthz, /readyz, /metrics, /lifecycle/metrics,
// /debug/pprof and /openapi/ on a unix socket. It starts first, so that
// metrics and profiles can be read while the others start; /readyz waits for all of them.
type health struct {
	component.Task
	path   string
	server *http.Server
	stages [][]component.Component
	up     atomic.Bool
}

func newHealth(path string, stages [][]component.Component, hooks http.Handler) *health {
	h := &health{path: path, stages: stages}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", h.readyz)
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.Handle("/lifecycle/metrics", lifecycleMetrics())
	// Profiles can hold secrets; only root can connect to the socket.
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.Handle("/openapi/", http.StripPrefix("/openapi", hooks))
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	return h
}

func (h *health) component() component.Component {
	return component.Component{Name: "health", Init: h.init, Start: h.start, Run: h}
}

// init removes the socket of a plane that was killed.
func (h *health) init(context.Context) error {
	if err := os.Remove(h.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the old socket: %w", err)
	}
	return nil
}

func (h *health) start(ctx context.Context) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "unix", h.path)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", h.path, err)
	}
	h.Go(func(context.Context) error {
		if err := h.server.Serve(listener.New(ln, listener.Options{})); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return nil
}

// Stop implements component.Running.
func (h *health) Stop(ctx context.Context) error {
	return errors.Join(h.server.Close(), h.Task.Stop(ctx))
}

// readyz asks every component; components that have not been started are not
// asked, as their Ready is not valid yet.
func (h *health) readyz(w http.ResponseWriter, r *http.Request) {
	if !h.up.Load() {
		http.Error(w, "the plane is not up", http.StatusServiceUnavailable)
		return
	}
	for _, stage := range h.stages {
		for _, c := range stage {
			if err := c.Check(r.Context()); err != nil {
				http.Error(w, c.Name+": "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
	}
	fmt.Fprintln(w, "ok")
}
