package enroll

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/host"
)

// removedFile keeps the digest of the bootstrap kubeconfig that was removed last. Whoever
// puts the same one back, as an image or a provisioning tool does, has no other wish: a
// host that was handed over since stays where it is.
const removedFile = config.RemovedBootstrapFile

// Served is called when the management cluster shows the Host: the bootstrap kubeconfig has
// done its work then, and its token is of use only to a thief. One that somebody has put
// there since is kept.
func (s *Session) Served() {
	if !s.enrolled() {
		// It takes the token to become so.
		return
	}
	s.mu.Lock()
	configured := s.configured
	s.configured = ""
	s.mu.Unlock()
	if configured == "" {
		return
	}
	e := s.enroller
	switch removed, err := e.removeBootstrapKubeconfig(configured); {
	case err != nil:
		e.Log.Warn("cannot remove the bootstrap kubeconfig; remove it by hand, its token lets others enroll hosts", "file", e.BootstrapKubeconfig, "err", err)
	case removed:
		e.Log.Info("enrolled; removed the bootstrap kubeconfig", "file", e.BootstrapKubeconfig)
	}
}

// removeBootstrapKubeconfig removes the file if it still is the one of the digest. Each
// step may be the last before a power cut: the file goes last, and all is done again as
// long as it is there.
func (e *Enroller) removeBootstrapKubeconfig(digest string) (bool, error) {
	now, err := e.configuredDigest()
	if err != nil || now != digest {
		return false, err
	}
	superseded, err := e.superseded()
	if err != nil {
		return false, err
	}
	assigned, err := loadAssigned(e.StateDir)
	if err != nil {
		return false, err
	}
	if err := durable.Write(filepath.Join(e.StateDir, removedFile), []byte(digest), 0o600); err != nil {
		return false, err
	}
	if superseded {
		// Without the kubeconfig, the host would go back there.
		if err := durable.Remove(filepath.Join(e.StateDir, host.HomeFile)); err != nil {
			return false, err
		}
	}
	if assigned != nil && assigned.Supersedes != digest {
		// Likewise, to the namespace that it was assigned to.
		if err := durable.Remove(filepath.Join(e.StateDir, assignedFile)); err != nil {
			return false, err
		}
	}
	if err := durable.Remove(e.BootstrapKubeconfig); err != nil {
		return false, err
	}
	return true, nil
}

// superseded says whether the host was handed over and the bootstrap kubeconfig is a later
// word of the operator.
func (e *Enroller) superseded() (bool, error) {
	_, err := os.Stat(filepath.Join(e.StateDir, host.HomeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	target, err := e.target()
	return target == nil, err
}

// removedDigest is empty when none was removed.
func (e *Enroller) removedDigest() (string, error) {
	data, err := os.ReadFile(filepath.Join(e.StateDir, removedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}
