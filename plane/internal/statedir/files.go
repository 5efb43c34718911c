package statedir

import (
	"path/filepath"

	"github.com/slipway-dev/slipway/plane/internal/pki"
)

// Kubeconfig is where the administrator's kubeconfig of a plane is.
func Kubeconfig(stateDir string) string { return filepath.Join(stateDir, "kubeconfig") }

// Certificates are the files of a plane that who else serves hosts needs: the certificate of
// the API server with its key, and the CA of the hosts' certificates.
func Certificates(stateDir string) (cert, key, clientCA string) {
	authority := pki.New(pki.Options{Dir: filepath.Join(stateDir, "pki")})
	return authority.ServingCertFile(), authority.ServingKeyFile(), authority.CACertFile()
}

// Socket is where a plane serves /healthz, /readyz and /metrics.
func Socket(stateDir string) string { return filepath.Join(stateDir, "plane.sock") }
