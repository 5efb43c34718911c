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

// controlPlaneHosts says which hosts the control plane may use. KubeadmControlPlane chooses
// the failure domain of a new machine before anything is known of its host, and waits for
// one there however long that takes. What passes by itself counts for nothing: a host that
// is away, enrolls or is released will be there, and the domain that a machine has just
// left is the best for the next one. Of a control plane that is none of kubeadm's, or not
// on hosts, nothing is known: it may use all.
func (r *Reconciler) controlPlaneHosts(ctx context.Context, s *scope) (func(*infrav1.Host) bool, error) {
	all := func(*infrav1.Host) bool { return true }
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
	chooser, err := placement.NewChooser(placement.Request{Version: plane.Spec.Version, Placement: template.Spec.Template.Spec.Placement})
	if err != nil {
		return nil, fmt.Errorf("HostMachineTemplate %s: %w", machine.Name, err)
	}
	machines := &infrav1.HostMachineList{}
	if err := r.Client.List(ctx, machines, client.InNamespace(s.cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the machines of hosts: %w", err)
	}
	others := map[string]bool{}
	for i := range machines.Items {
		m := &machines.Items[i]
		_, isControlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
		ours := isControlPlane && m.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name
		others[m.Name] = !ours && m.DeletionTimestamp.IsZero()
	}
	return func(h *infrav1.Host) bool {
		return chooser.Suits(h) && !heldBack(h) && mayOffer(h, plane.Spec.Version) && (h.Spec.Claim == nil || !others[h.Spec.Claim.MachineName])
	}, nil
}

// heldBack says whether the host's operator keeps new machines from it.
func heldBack(h *infrav1.Host) bool {
	return !host.Approved(h) || ptr.Deref(h.Spec.Unschedulable, false) || ptr.Deref(h.Spec.Evacuate, false) || !h.DeletionTimestamp.IsZero()
}

// mayOffer says whether a host offers a version, or has yet to tell which.
func mayOffer(h *infrav1.Host, version string) bool {
	return len(h.Status.Inventory.KubernetesVersions) == 0 || host.Offers(h, version)
}

// awaitControlPlane looks again soon for what is not there yet. Until then the Cluster must
// not go on: its control plane would choose among domains of which nothing is known.
func (s *scope) awaitControlPlane(err error, what string) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get %s: %w", what, err)
	}
	s.requeueAfter = controlPlaneRetry
	if s.problem == nil && !ptr.Deref(s.hostCluster.Status.Initialization.Provisioned, false) {
		s.problem = &problem{infrav1.HostClusterWaitingForControlPlaneReason, fmt.Sprintf("Waiting for %s, which says where control planes may be", what)}
	}
	return nil
}
