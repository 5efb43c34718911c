package hostcluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/placement"
)

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,verbs=get
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinetemplates,verbs=get;list;watch

const (
	// controlPlaneInterval is how long a change of the control plane may go unnoticed:
	// it is not watched.
	controlPlaneInterval = time.Minute
	// controlPlaneRetry is when to look again for a control plane that is not there yet.
	controlPlaneRetry = 2 * time.Second
)

// standing is what a host is worth to the control plane.
type standing int

const (
	// never: it may not use the host.
	never standing = iota
	// later: it may, and another machine would have to wait for the host: one of its own
	// has it, or the host is away or needs an operator.
	later
	// now: the host is free. What passes by itself within moments counts for nothing: a
	// host that enrolls or is released will be there, and the domain that a machine has
	// just left is the best for the next one.
	now
)

// controlPlaneHosts says what each host is worth to the control plane. KubeadmControlPlane
// chooses the failure domain of a new machine before anything is known of its host, and
// waits for one there however long that takes. Of a control plane that is none of
// kubeadm's, or not on hosts, nothing is known: it may use all.
func (r *Reconciler) controlPlaneHosts(ctx context.Context, s *scope) (func(*infrav1.Host) standing, error) {
	all := func(*infrav1.Host) standing { return now }
	ref := s.cluster.Spec.ControlPlaneRef
	if ref.APIGroup != controlplanev1.GroupVersion.Group || ref.Kind != "KubeadmControlPlane" {
		return all, nil
	}
	s.requeueAfter = controlPlaneInterval
	plane, template := &controlplanev1.KubeadmControlPlane{}, &infrav1.HostMachineTemplate{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name}, plane); err != nil {
		return all, s.awaitControlPlane(err, "KubeadmControlPlane "+ref.Name)
	}
	machine := plane.Spec.MachineTemplate.Spec.InfrastructureRef
	if machine.APIGroup != infrav1.GroupVersion.Group || machine.Kind != "HostMachineTemplate" {
		return all, nil
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.cluster.Namespace, Name: machine.Name}, template); err != nil {
		return all, s.awaitControlPlane(err, "HostMachineTemplate "+machine.Name)
	}
	release, err := placement.ReleaseOf(ctx, r.Client, plane.Spec.Version)
	if err != nil {
		return nil, err
	}
	requirements, err := placement.Parse(placement.Request{Placement: template.Spec.Template.Spec.Placement})
	if err != nil {
		return nil, fmt.Errorf("HostMachineTemplate %s: %w", machine.Name, err)
	}
	owners, err := r.owners(ctx, s.cluster, ptr.Deref(plane.Spec.Replicas, 1))
	if err != nil {
		return nil, err
	}
	return func(h *infrav1.Host) standing {
		switch {
		case !requirements.Matches(h) || host.HeldBack(h) || !mayOffer(h, plane.Spec.Version, release):
			return never
		case h.Spec.Claim == nil || host.Releasing(h):
			return claimable(h)
		default:
			return owners(h.Spec.Claim.MachineName)
		}
	}, nil
}

// owners says what the host is worth to the control plane that a machine has: nothing, but
// for its own and for a claim whose machine is gone. A control plane with machines to spare
// makes none, it deletes: first those in domains that are not for it, then one where most
// are. So its own hosts count as free then, or it would leave the domains that it fills,
// and stay in those with hosts to spare.
func (r *Reconciler) owners(ctx context.Context, cluster *clusterv1.Cluster, replicas int32) (func(string) standing, error) {
	machines := &infrav1.HostMachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the machines of hosts: %w", err)
	}
	others, staying := map[string]bool{}, int32(0)
	for i := range machines.Items {
		m := &machines.Items[i]
		_, isControlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		ours := isControlPlane && m.Labels[clusterv1.ClusterNameLabel] == cluster.Name
		others[m.Name] = !ours
		if ours && m.DeletionTimestamp.IsZero() {
			staying++
		}
	}
	return func(machine string) standing {
		isOther, lives := others[machine]
		switch {
		case isOther:
			return never
		case lives && staying > replicas:
			return now
		default:
			return later
		}
	}, nil
}

// claimable says what a host is worth that nobody has, or that is given up.
func claimable(h *infrav1.Host) standing {
	why := host.Unavailable(h, !host.Disconnected(h))
	if host.Disconnected(h) || why.Quarantined() || why.Phase == infrav1.HostPhaseAvailable {
		return later
	}
	return now
}

// mayOffer says whether a host has or installs a version, or has yet to tell.
func mayOffer(h *infrav1.Host, version string, release *infrav1.KubernetesReleaseSpec) bool {
	return len(h.Status.Inventory.KubernetesVersions) == 0 || host.OfferOf(h, version, release) != host.OfferNone
}

// awaitControlPlane looks again soon for what is not there yet. Until then the Cluster must
// not go on: its control plane would choose among domains of which nothing is known.
func (s *scope) awaitControlPlane(err error, what string) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get %s: %w", what, err)
	}
	s.requeueAfter = controlPlaneRetry
	if s.problem == nil && !provisioned(s.hostCluster) {
		s.problem = &problem{infrav1.HostClusterWaitingForControlPlaneReason, fmt.Sprintf("Waiting for %s, which says where control planes may be", what)}
	}
	return nil
}
