package hostmachine

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement/inputs"
)

// findOwner waits until core Cluster API has all that a host needs: an owner, the
// infrastructure of the cluster, and bootstrap data. A machine that already has
// its host goes on without them, since a deleted owner must not hide its state.
func (r *Reconciler) findOwner(ctx context.Context, s *scope) (bool, error) {
	claimed := s.hostMachine.Spec.ProviderID != ""
	if s.cluster == nil {
		s.waiting = &waiting{infrav1.HostMachineWaitingForClusterReason, "Waiting for Cluster API to set the owner and the label " + clusterv1.ClusterNameLabel}
		return claimed, nil
	}
	found, err := inputs.OwnerOf(ctx, r.Client, s.hostMachine)
	if err != nil {
		return false, err
	}
	s.owner = found
	switch {
	case found == nil:
		s.waiting = &waiting{infrav1.HostMachineWaitingForOwnerReason, "Waiting for a Machine or MachinePool that owns this HostMachine"}
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		s.waiting = &waiting{clusterv1.WaitingForClusterInfrastructureReadyReason, fmt.Sprintf("Waiting for the infrastructure of Cluster %s", s.cluster.Name)}
	case found.BootstrapSecret == "" && !s.adopts():
		s.waiting = &waiting{clusterv1.WaitingForBootstrapDataReason, fmt.Sprintf("Waiting for the bootstrap data of %s", found.Description)}
	default:
		return true, nil
	}
	return claimed, nil
}
