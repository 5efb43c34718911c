package serve

import (
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-dev/slipway/plane/internal/component"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// statusWriter keeps status.json up to date.
type statusWriter struct {
	dir string
	mu  sync.Mutex
	statedir.Status
}

func newStatus(opts Options) *statusWriter {
	return &statusWriter{dir: opts.StateDir, Status: statedir.Status{
		Name: opts.Name, PID: os.Getpid(), Start: time.Now(), Foreground: opts.Foreground, Service: opts.Service,
		Server: opts.AdminServer, Outside: opts.Outside, Kubeconfig: statedir.Kubeconfig(opts.StateDir), Socket: statedir.Socket(opts.StateDir),
	}}
}

func (w *statusWriter) note(e component.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Phase == component.PhaseStopping {
		w.Ready = false
	}
	now := statedir.ComponentStatus{Name: e.Component, Phase: e.Phase, Reason: e.Reason}
	known := false
	for i := range w.Components {
		if w.Components[i].Name == e.Component {
			w.Components[i], known = now, true
		}
	}
	if !known {
		w.Components = append(w.Components, now)
	}
	if err := w.write(); err != nil {
		// Nothing depends on the file while the plane comes up.
		klog.Background().WithName("serve").Error(err, "Cannot write the status")
	}
}

func (w *statusWriter) ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Ready, w.ReadyAfter = true, time.Since(w.Start).Seconds()
	return w.write()
}

func (w *statusWriter) stopped(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Ready = false
	if err != nil {
		w.Error = err.Error()
	}
	return w.write()
}

func (w *statusWriter) write() error { return statedir.WriteStatus(w.dir, &w.Status) }
