package hostmachine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// confirmDeletion makes sure that the machine is deleted for good. clusterctl deletes
// what it moved, finalizers and all, and the cache may show the machine without its
// paused Cluster for a moment: a reset then would wipe a node that runs on.
func (r *Reconciler) confirmDeletion(ctx context.Context, s *scope) (bool, error) {
	live := &infrav1.HostMachine{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.hostMachine), live); err != nil {
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("get HostMachine %s: %w", s.hostMachine.Name, err)
		}
		s.movedAway = true
		return false, nil
	}
	if host.MovedAway(live) || live.UID != s.hostMachine.UID {
		s.movedAway = true
		return false, nil
	}
	cluster, err := reconciler.Cluster(ctx, r.APIReader, live.Namespace, live.Labels[clusterv1.ClusterNameLabel])
	if err != nil || cluster == nil {
		return err == nil, err
	}
	s.movedAway = annotations.IsPaused(cluster, live)
	s.etcdLeaves, err = r.etcdLeaves(ctx, live, cluster)
	return !s.movedAway, err
}

// etcdLeaves says whether all machines of its control plane go with a deleted machine: the Cluster, or what made
// them, is being deleted. The last ones then have no quorum.
func (r *Reconciler) etcdLeaves(ctx context.Context, m *infrav1.HostMachine, cluster *clusterv1.Cluster) (bool, error) {
	if !cluster.DeletionTimestamp.IsZero() {
		return true, nil
	}
	owner, err := placement.OwnerOf(ctx, r.Client, m)
	if err != nil || owner == nil || !owner.ControlPlane {
		return false, err
	}
	why, err := placement.MakerLeaves(ctx, r.APIReader, m.Namespace, owner)
	return why != "", err
}

// requestReset tells every host that carries the claim to reset. Hosts are read
// past the cache: a host the cache doesn't show yet would be leaked.
func (r *Reconciler) requestReset(ctx context.Context, s *scope) (bool, error) {
	if s.hostMachine.Spec.ClaimID == "" {
		return true, nil
	}
	hosts, err := hostsOfClaim(ctx, r.APIReader, s.hostMachine)
	if err != nil {
		return false, err
	}
	for i := range hosts {
		if err := r.reset(ctx, s, &hosts[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// reset requests the reset of one host, with the resourceVersion h was read with. A node
// that is not adopted yet is never reset: the claim ends, and that is all.
func (r *Reconciler) reset(ctx context.Context, s *scope, h *infrav1.Host) error {
	if host.Adopting(h) {
		return r.withdraw(ctx, s, h)
	}
	ofControlPlane := host.OfControlPlane(h)
	requested := host.RequestReset(h, s.hostMachine.Spec.ResetPolicy)
	if abandoned := s.etcdLeaves && ofControlPlane && host.AbandonEtcd(h); !requested && !abandoned {
		return nil
	}
	if err := r.Client.Update(ctx, h); err != nil {
		return fmt.Errorf("request the reset of Host %s: %w", h.Name, err)
	}
	if !requested {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Requested reset of host", "Host", klog.KObj(h), "claim", s.hostMachine.Spec.ClaimID)
	r.Recorder.Eventf(s.hostMachine, h, "Normal", "Releasing", "Release", "Requested the reset of Host %s", h.Name)
	return nil
}

// awaitRelease lets the machine go once nothing more can come of waiting: the
// Host controller cleared the claim on proof, or the agent is not connected, or it
// gave up. In the latter cases the operation stays on the Host, which nobody can claim
// until it is proved clean; the deletion of a Cluster never hangs on a dead host.
func (r *Reconciler) awaitRelease(ctx context.Context, s *scope) (bool, error) {
	if s.hostMachine.Spec.ClaimID != "" {
		hosts, err := hostsOfClaim(ctx, r.APIReader, s.hostMachine)
		if err != nil {
			return false, err
		}
		for i := range hosts {
			if busyResetting(&hosts[i]) {
				s.host = &hosts[i]
				return false, nil
			}
		}
		if err := r.reportRelease(ctx, s, hosts); err != nil {
			return false, err
		}
	}
	s.released = true
	controllerutil.RemoveFinalizer(s.hostMachine, infrav1.HostMachineFinalizer)
	return true, nil
}

// busyResetting says whether the agent can be expected to go on with the reset. One that
// nobody has judged yet is expected to: the Host controller says when it is away.
func busyResetting(h *infrav1.Host) bool {
	return !host.StateOf(h).Quarantined() && !host.Disconnected(h)
}

// reportRelease makes the event of a release. A Host that is gone proved nothing, and nor
// did one that was never claimed.
func (r *Reconciler) reportRelease(ctx context.Context, s *scope, left []infrav1.Host) error {
	_, name, _, claimed := host.ParseProviderID(s.hostMachine.Spec.ProviderID)
	if s.withdrawn || (len(left) == 0 && !claimed) {
		return nil
	}
	if len(left) == 0 {
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.hostMachine.Namespace, Name: name}, &infrav1.Host{})
		switch {
		case apierrors.IsNotFound(err):
			r.Recorder.Eventf(s.hostMachine, nil, "Warning", "ReleasedUnproved", "Release", "Host %s was deleted, so nothing verifies that the machine is clean: check it before you use it again", name)
		case err != nil:
			return fmt.Errorf("get Host %s: %w", name, err)
		default:
			r.Recorder.Eventf(s.hostMachine, nil, "Normal", "Released", "Release", "Reset of Host %s complete; it is available", name)
		}
		return nil
	}
	for i := range left {
		r.Recorder.Eventf(s.hostMachine, &left[i], "Warning", "ReleasedUnproved", "Release",
			"Host %s was released before it was verified clean. It stays unavailable until its agent reconnects and resets it", left[i].Name)
	}
	return nil
}
