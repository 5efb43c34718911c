package host

import (
	"encoding/json"
	"fmt"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// HomeFile is in the state directory of an agent once its host was handed over to
// another management cluster, and holds a Home as JSON. It stands in for the configured
// bootstrap kubeconfig, which names the first one.
const HomeFile = "handed-over.json"

// Home says where a host was handed over to.
type Home struct {
	// Kubeconfig is the bootstrap kubeconfig of the management cluster.
	Kubeconfig []byte `json:"kubeconfig"`
	// Supersedes is the digest of the configured bootstrap kubeconfig at that time,
	// empty without one. Any other is a later word of the operator, and wins.
	Supersedes string `json:"supersedes,omitempty"`
}

// ParseHome reads the content of a HomeFile.
func ParseHome(data []byte) (Home, error) {
	var h Home
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%s is damaged: %w; remove it and copy a bootstrap kubeconfig to the host", HomeFile, err)
	}
	return h, nil
}

// Target is the management cluster of a Home.
func (h Home) Target() (Target, error) {
	target, err := ParseTarget(h.Kubeconfig)
	if err != nil {
		return target, fmt.Errorf("%s: %w", HomeFile, err)
	}
	return target, nil
}

// Recognize judges the Host that an agent finds in another management cluster or namespace, by
// the hostID of the agent and the claim generation that it has served: it must be the same
// host, and not of an earlier time, as the copy of a backup is.
func Recognize(there *infrav1.Host, hostID string, generation int64) error {
	switch {
	case there.Spec.HostID != hostID:
		return fmt.Errorf("the Host there is of another machine: its hostID is %s", there.Spec.HostID)
	case there.Spec.ClaimGeneration < generation:
		return fmt.Errorf("the Host there is of an earlier time: claim generation %d, and this machine has served %d", there.Spec.ClaimGeneration, generation)
	}
	return nil
}
