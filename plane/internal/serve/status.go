package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Status is the content of status.json. It tells about the last plane that
// served the directory; whether that one still runs is told by PID and Start.
type Status struct {
	Name  string    `json:"name"`
	PID   int       `json:"pid"`
	Start time.Time `json:"start"`

	// Ready is true from when all components are ready until the stop begins.
	Ready bool `json:"ready"`
	// ReadyAfter is how long that took, in seconds.
	ReadyAfter float64 `json:"readyAfterSeconds,omitempty"`

	// Error is why the plane ended, when nobody had asked it to.
	Error string `json:"error,omitempty"`

	Components []ComponentStatus `json:"components"`

	// Server is the URL of the API server, Kubeconfig the administrator's.
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	// Outside is how hosts on other machines reach it, nil when they do not.
	Outside *Outside `json:"outside,omitempty"`
	// Foreground is true for a plane that neither `slipway up` nor systemd started: whoever did
	// starts it again.
	Foreground bool `json:"foreground,omitempty"`
	// Service is true for one that systemd started, as `slipway install` has it.
	Service bool `json:"service,omitempty"`
	// Socket serves /healthz, /readyz and /metrics.
	Socket string `json:"socket"`
}

// ComponentStatus is where a component stands.
type ComponentStatus struct {
	Name   string          `json:"name"`
	Phase  component.Phase `json:"phase"`
	Reason string          `json:"reason,omitempty"`
}

const statusFile = "status.json"

// ReadStatus returns the status of the plane that serves, or served, stateDir.
// The error wraps fs.ErrNotExist when none ever did.
func ReadStatus(stateDir string) (Status, error) {
	var s Status
	data, err := os.ReadFile(filepath.Join(stateDir, statusFile))
	if err != nil {
		return s, fmt.Errorf("read the plane's status: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("the plane's status: %w", err)
	}
	return s, nil
}

// Current is what the plane that serves stateDir tells of itself; nil when none does, or it
// has not told yet.
func Current(stateDir string) *Status {
	holder, running, err := Running(stateDir)
	if err != nil || !running {
		return nil
	}
	s, err := ReadStatus(stateDir)
	if err != nil || s.PID != holder.PID {
		return nil
	}
	return &s
}

// statusWriter keeps status.json up to date.
type statusWriter struct {
	dir string
	mu  sync.Mutex
	Status
}

func newStatus(opts Options) *statusWriter {
	return &statusWriter{dir: opts.StateDir, Status: Status{
		Name: opts.Name, PID: os.Getpid(), Start: time.Now(), Foreground: opts.Foreground, Service: opts.Service,
		Server: opts.AdminServer, Outside: opts.Outside, Kubeconfig: Kubeconfig(opts.StateDir), Socket: Socket(opts.StateDir),
	}}
}

func (w *statusWriter) note(e component.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Phase == component.PhaseStopping {
		w.Ready = false
	}
	now := ComponentStatus{Name: e.Component, Phase: e.Phase, Reason: e.Reason}
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

// write replaces the file. It is not synced: after a crash of the machine the
// process it tells of is gone, whatever it says.
func (w *statusWriter) write() error {
	data, err := json.MarshalIndent(&w.Status, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(w.dir, statusFile)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("write the plane's status: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("write the plane's status: %w", err), os.Remove(tmp))
	}
	return nil
}
