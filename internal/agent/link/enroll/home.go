package enroll

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/host"
)

// target returns where the host was handed over to; nil when it was not, or when the
// operator has put another bootstrap kubeconfig there since.
func (e *Enroller) target() (*host.Target, error) {
	data, err := os.ReadFile(filepath.Join(e.StateDir, host.HomeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	home, err := host.ParseHome(data)
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", e.StateDir, err)
	}
	if later, err := laterWord(e.BootstrapKubeconfig, home.Supersedes); err != nil || later {
		return nil, err
	}
	target, err := home.Target()
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", e.StateDir, err)
	}
	return &target, nil
}

// configuredDigest is empty when there is no configured bootstrap kubeconfig.
func (e *Enroller) configuredDigest() (string, error) { return digestOf(e.BootstrapKubeconfig) }

// digestOf is empty for a file that is not there.
func digestOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// laterWord says whether there is a bootstrap kubeconfig other than that of the digest: the
// operator has put it there since.
func laterWord(bootstrapKubeconfig, digest string) (bool, error) {
	now, err := digestOf(bootstrapKubeconfig)
	return now != "" && now != digest, err
}

// lastDigest is that of the configured bootstrap kubeconfig, or of the one that was removed last.
func (e *Enroller) lastDigest() (string, error) {
	digest, err := e.configuredDigest()
	if err == nil && digest == "" {
		digest, err = e.removedDigest()
	}
	return digest, err
}

// moveHome writes down, in one step, that the host belongs to another management cluster.
func (e *Enroller) moveHome(kubeconfig []byte) error {
	supersedes, err := e.lastDigest()
	if err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(e.StateDir, host.HomeFile), host.Home{Kubeconfig: kubeconfig, Supersedes: supersedes}, 0o600)
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
