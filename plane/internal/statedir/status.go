package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// APIServer is the name of the component that answers requests.
const APIServer = "kube-apiserver"

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

// WriteStatus replaces what the plane that serves stateDir tells of itself. It is not synced:
// after a crash of the machine the process it tells of is gone, whatever it says.
func WriteStatus(stateDir string, s *Status) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(stateDir, statusFile)
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("write the plane's status: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("write the plane's status: %w", err), os.Remove(tmp))
	}
	return nil
}
