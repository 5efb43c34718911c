package statedir

import "path/filepath"

// Kubeconfig is where the administrator's kubeconfig of a plane is.
func Kubeconfig(stateDir string) string { return filepath.Join(stateDir, "kubeconfig") }

// Socket is where a plane serves /healthz, /readyz and /metrics.
func Socket(stateDir string) string { return filepath.Join(stateDir, "plane.sock") }
