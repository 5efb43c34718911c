package uninstall

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
)

// ServesError says that the host is a node, or that something of one may be on it.
type ServesError struct{ Why string }

// Error implements error.
func (e *ServesError) Error() string {
	return fmt.Sprintf("%s; nothing was changed: delete its Machine, and wait until the host is reset. If its management cluster is gone for good, "+
		"`kubeadm reset` and remove /etc/kubernetes, /var/lib/kubelet and the agent's state directory first", e.Why)
}

// dispensable refuses a host that serves, and one that has software which this program alone
// can take away.
func (h *Host) dispensable() error {
	if err := h.free(); err != nil {
		return err
	}
	releases, err := h.Software.Installed()
	if err != nil {
		return err
	}
	if len(releases) > 0 {
		return fmt.Errorf("the software of a node that this agent installed is on the host, Kubernetes %s among it: take it away with `slipway-agent uninstall` first", releases[len(releases)-1].KubernetesVersion)
	}
	return nil
}

// free refuses a host that serves. The journal tells of what the agent did; the node files
// tell of the rest, but for a node of somebody else, which the agent found and let be.
func (h *Host) free() error {
	s, err := journal.Read(h.Root.Path(filepath.Join(h.Config.StateDir, config.JournalFile)))
	if err != nil {
		return err
	}
	switch {
	case s.Running():
		return &ServesError{fmt.Sprintf("the agent is at work: %s of claim %s", s.Operation.Phase, s.ClaimID)}
	case s.NodeOf() != "":
		return &ServesError{"the host is a node, of claim " + s.NodeOf()}
	case s.Residue != journal.ResidueNone, s.BootstrappedClaimID != "":
		return &ServesError{fmt.Sprintf("the host is not reset: claim %s left %s", s.ClaimID, s.Residue)}
	case s.VirtualIP != "":
		return &ServesError{fmt.Sprintf("the host has the control-plane address %s", s.VirtualIP)}
	}
	err = h.Software.CheckUnused()
	var refused *software.Error
	if errors.As(err, &refused) && refused.Reason == software.ReasonInUse {
		return &ServesError{err.Error()}
	}
	if err != nil || len(s.Found) > 0 {
		return err
	}
	for _, path := range software.NodeFiles() {
		if _, err := os.Lstat(h.Root.Path(path)); err == nil {
			return &ServesError{path + " is there: the host is a node"}
		}
	}
	return nil
}
