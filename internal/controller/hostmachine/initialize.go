package hostmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// controlPlaneRetry is when to look again whether the Cluster is initialized, besides the
// events that tell.
const controlPlaneRetry = 10 * time.Second

// awaitControlPlane decides, for the operation that is about to be written, whether the host
// makes the control plane of its cluster: only that host takes the control-plane address
// without an election.
//
// Bootstrap data makes a control plane when it was made before the Cluster was initialized,
// and the bootstrap provider makes it for one machine then. So the host makes the control
// plane if the Cluster is not initialized and no other host of the control plane is claimed.
// Both are read live. Of two hosts that are decided on at the same time each sees the claim
// of the other, since a claim is written before the decision: neither makes it.
//
// A Cluster that is not initialized and has another control-plane host was restored from a
// backup, or has data that somebody made by hand. The operation waits until it is initialized.
func (r *Reconciler) awaitControlPlane(ctx context.Context, s *scope) (bool, error) {
	endpoint, err := r.endpointToHold(ctx, s)
	if err != nil || endpoint.Host == "" {
		return err == nil, err
	}
	cluster := &clusterv1.Cluster{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.cluster), cluster); err != nil {
		return false, fmt.Errorf("get Cluster %s: %w", s.cluster.Name, err)
	}
	s.virtualIP = endpoint
	if initialized(cluster) {
		s.initializes = ptr.To(false)
		return true, r.revokeOthers(ctx, s)
	}
	other, err := otherControlPlaneHost(ctx, r.APIReader, s.host)
	if err != nil {
		return false, err
	}
	if other == nil {
		s.initializes = ptr.To(true)
		return true, nil
	}
	if s.host.Spec.Desired != nil {
		// Its agent waits.
		return true, nil
	}
	s.held = &waiting{infrav1.WaitingForControlPlaneReason, fmt.Sprintf(
		"Host %s is claimed and bootstraps once Cluster %s is initialized: Host %s of its control plane is claimed by %s, so this machine must not make another control plane. "+
			"If that host never made one, delete its Machine", s.host.Name, cluster.Name, other.Name, other.Spec.Claim.MachineName)}
	s.requeueAfter = controlPlaneRetry
	return false, nil
}

// endpointToHold is the control-plane endpoint that the operation of the host will name;
// empty when it names none, or when it is decided who makes the control plane. A manager of
// before has written operations without that decision.
func (r *Reconciler) endpointToHold(ctx context.Context, s *scope) (clusterv1.APIEndpoint, error) {
	none := clusterv1.APIEndpoint{}
	desired := s.host.Spec.Desired
	switch {
	case host.Releasing(s.host) || s.cluster == nil || s.owner == nil || !s.owner.ControlPlane || s.adopts():
		return none, nil
	case desired == nil:
	case desired.Phase != infrav1.HostDesiredBootstrapped || desired.InitializesControlPlane != nil || ptr.Deref(desired.Bootstrapped, false):
		return none, nil
	default:
		return clusterv1.APIEndpoint{Host: desired.VirtualIP, Port: desired.VirtualIPPort}, nil
	}
	hostCluster, err := placement.HostClusterOf(ctx, r.Client, s.cluster)
	if err != nil {
		return none, err
	}
	return virtualIP(hostCluster), nil
}

// initialized says whether the control plane of a cluster was made. It never becomes false
// again, but in a Cluster that was moved or restored without its status.
func initialized(c *clusterv1.Cluster) bool {
	return conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition) || ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false)
}

// otherControlPlaneHost is a host of the same control plane besides h, or nil. One that is
// being reset counts until its claim has ended.
func otherControlPlaneHost(ctx context.Context, reader client.Reader, h *infrav1.Host) (*infrav1.Host, error) {
	hosts := &infrav1.HostList{}
	if err := reader.List(ctx, hosts, client.InNamespace(h.Namespace)); err != nil {
		return nil, fmt.Errorf("look for other hosts of the control plane: %w", err)
	}
	for i := range hosts.Items {
		other := &hosts.Items[i]
		if sameControlPlane(other, h) {
			return other, nil
		}
	}
	return nil, nil
}

// withdrawInit takes from an operation that has not succeeded the right to make the control
// plane, once the cluster has one with another host: a further try would begin with a reset,
// and make a second one.
func (r *Reconciler) withdrawInit(ctx context.Context, s *scope, desired *infrav1.HostDesired) error {
	if !mayInit(desired) || s.cluster == nil || !initialized(s.cluster) {
		return nil
	}
	other, err := otherControlPlaneHost(ctx, r.Client, s.host)
	if err == nil && other != nil {
		revokeInit(desired)
	}
	return err
}

// revokeOthers ends the right of every other host of the control plane to make it, before
// the operation of one that joins is written: the manager may end after that, and the agent of
// the other host go on. It reads them live.
func (r *Reconciler) revokeOthers(ctx context.Context, s *scope) error {
	hosts := &infrav1.HostList{}
	if err := r.APIReader.List(ctx, hosts, client.InNamespace(s.host.Namespace)); err != nil {
		return fmt.Errorf("list the hosts that may make the control plane: %w", err)
	}
	for i := range hosts.Items {
		other := &hosts.Items[i]
		if !sameControlPlane(other, s.host) || !mayInit(other.Spec.Desired) {
			continue
		}
		revokeInit(other.Spec.Desired)
		if err := r.Client.Update(ctx, other); err != nil {
			return fmt.Errorf("end the right of Host %s to make the control plane: %w", other.Name, err)
		}
	}
	return nil
}

// mayInit says whether an operation lets its host make the control plane, at this or a further try.
func mayInit(desired *infrav1.HostDesired) bool {
	return desired != nil && desired.Phase == infrav1.HostDesiredBootstrapped && !ptr.Deref(desired.Bootstrapped, false) && ptr.Deref(desired.InitializesControlPlane, false)
}

// revokeInit removes the bootstrap data as well: it makes a control plane, so a host that has not begun
// must not join with it.
func revokeInit(desired *infrav1.HostDesired) {
	desired.InitializesControlPlane, desired.BootstrapSecretName = ptr.To(false), ""
}

func sameControlPlane(other, h *infrav1.Host) bool {
	return other.Name != h.Name && host.OfControlPlane(other) && other.Spec.Claim.ClusterName == h.Spec.Claim.ClusterName
}
