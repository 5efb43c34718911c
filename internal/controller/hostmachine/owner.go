package hostmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// findOwner waits until core Cluster API has all that a host needs: an owner, the
// infrastructure of the cluster, and bootstrap data. A machine that already has
// its host goes on without them, since a deleted owner must not hide its state. A machine
// whose owner or Cluster is being deleted claims no host: a host that is bootstrapped for
// it would be reset for nothing, and might make a control plane lose its quorum.
func (r *Reconciler) findOwner(ctx context.Context, s *scope) (bool, error) {
	claimed := s.hostMachine.Spec.ProviderID != ""
	if s.cluster == nil {
		s.waiting = &waiting{infrav1.HostMachineWaitingForClusterReason, "Waiting for Cluster API to set the owner and the label " + clusterv1.ClusterNameLabel}
		return claimed, nil
	}
	found, err := placement.OwnerOf(ctx, r.Client, s.hostMachine)
	if err != nil {
		return false, err
	}
	s.owner, s.leaving = found, placement.Leaving(found, s.cluster)
	switch {
	case s.leaving != "":
		s.waiting = claimsNone(s.leaving)
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

// claimsNone says why a machine that leaves claims no host.
func claimsNone(leaving string) *waiting {
	return &waiting{infrav1.HostMachineOwnerDeletingReason, leaving + ": the machine claims no host. Delete its Machine if that lasts, or see what holds the deletion up"}
}

// makerLeaves reads live, as no cache has them, whether what made the Machine is
// being deleted: such a machine claims no host.
func (r *Reconciler) makerLeaves(ctx context.Context, s *scope) (bool, error) {
	if s.owner == nil {
		return false, nil
	}
	why, err := placement.MakerLeaves(ctx, r.APIReader, s.hostMachine.Namespace, s.owner)
	if err == nil && why != "" {
		s.waiting, s.requeueAfter = claimsNone(why), makerInterval
	}
	return why != "", err
}

// makerInterval is how long the end of a deletion may go unnoticed by a machine that waits for
// it: what makes Machines is not watched.
const makerInterval = 30 * time.Second

// holdLeaving holds back the first operation of a host whose machine has an owner or a
// Cluster that is being deleted.
func (r *Reconciler) holdLeaving(_ context.Context, s *scope) (bool, error) {
	if s.host.Spec.Desired != nil || s.leaving == "" {
		return true, nil
	}
	s.holdBack(s.leaving)
	return false, nil
}

// leaves reads past the cache, before an operation is written, whether the machine, one of
// its owners or its Cluster is being deleted.
func (r *Reconciler) leaves(ctx context.Context, s *scope, changed *infrav1.Host) (bool, error) {
	begins := s.host.Spec.Desired == nil
	if !begins && (changed.Spec.Desired.Phase != infrav1.HostDesiredUpgraded || changed.Spec.Desired.OperationID == s.host.Spec.Desired.OperationID) {
		return false, nil
	}
	why, err := placement.MachineLeaves(ctx, r.APIReader, s.hostMachine, s.host.Spec.Claim.ClusterName)
	if err != nil || why == "" {
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("Requested nothing of the host of a machine that leaves", "Host", klog.KObj(s.host), "phase", changed.Spec.Desired.Phase, "reason", why)
	if begins {
		s.holdBack(why)
	}
	return true, nil
}

// holdBack says why a claimed host has no operation yet.
func (s *scope) holdBack(leaving string) {
	s.held = &waiting{infrav1.HostMachineBootstrapOwnerDeletingReason, fmt.Sprintf(
		"%s: Host %s is claimed and is not bootstrapped. Delete the Machine if that lasts, or see what holds the deletion up", leaving, s.host.Name)}
}
