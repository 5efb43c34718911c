package enroll

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/atomicfile"
	"github.com/slipway-dev/slipway/internal/host"
)

// homeFile is there once the host was handed over to another management cluster. It
// stands in for the configured bootstrap kubeconfig, which names the first one.
const homeFile = "handed-over.json"

type home struct {
	// Kubeconfig is the bootstrap kubeconfig of the management cluster.
	Kubeconfig []byte `json:"kubeconfig"`
	// Supersedes is the digest of the configured bootstrap kubeconfig at that time,
	// empty without one. Any other is a later word of the operator, and wins.
	Supersedes string `json:"supersedes,omitempty"`
}

// home returns where the host was handed over to; nil when it was not, or when the
// operator has put another bootstrap kubeconfig there since.
func (e *Enroller) home() (*home, error) {
	data, err := os.ReadFile(filepath.Join(e.StateDir, homeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &home{}
	if err := json.Unmarshal(data, h); err != nil {
		return nil, fmt.Errorf("the file %s in %s is damaged: %w; remove it and copy a bootstrap kubeconfig to the host", homeFile, e.StateDir, err)
	}
	configured, err := e.configuredDigest()
	if err != nil || configured != "" && configured != h.Supersedes {
		return nil, err
	}
	return h, nil
}

// configuredDigest is empty when there is no configured bootstrap kubeconfig.
func (e *Enroller) configuredDigest() (string, error) {
	data, err := os.ReadFile(e.BootstrapKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// target parses where the host was handed over to; nil when it was not.
func (e *Enroller) target() (*host.Target, error) {
	h, err := e.home()
	if err != nil || h == nil {
		return nil, err
	}
	target, err := host.ParseTarget(h.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the file %s in %s: %w", homeFile, e.StateDir, err)
	}
	return &target, nil
}

// moveHome writes down, in one step, that the host belongs to another management cluster.
func (e *Enroller) moveHome(kubeconfig []byte) error {
	supersedes, err := e.configuredDigest()
	if err != nil {
		return err
	}
	data, err := json.Marshal(home{Kubeconfig: kubeconfig, Supersedes: supersedes})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(e.StateDir, homeFile), data, 0o600)
}

// serverOf reaches a management cluster without saying who asks.
func serverOf(t host.Target) *rest.Config {
	return &rest.Config{Host: t.Server, TLSClientConfig: rest.TLSClientConfig{CAData: t.CA, ServerName: t.ServerName}}
}

func withToken(t host.Target) *rest.Config {
	config := serverOf(t)
	config.BearerToken = t.Token
	return config
}
