package hostcluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// problem is a reason and message for the condition Ready.
type problem struct{ reason, message string }

// ensureEndpoint completes the endpoint and checks it. Nothing is allocated here:
// only the user knows which address of the network is free.
func (r *Reconciler) ensureEndpoint(_ context.Context, s *scope) error {
	endpoint, known := &s.hostCluster.Spec.ControlPlaneEndpoint, s.cluster.Spec.ControlPlaneEndpoint
	endpoint.Host = cmp.Or(endpoint.Host, known.Host)
	if endpoint.Port == 0 && sameAddress(endpoint.Host, known.Host) {
		endpoint.Port = known.Port
	}
	if endpoint.Port == 0 && endpoint.Host != "" {
		endpoint.Port = DefaultPort
	}
	s.problem = cmp.Or(checkEndpoint(s.hostCluster.Spec), refuseOther(s))
	return nil
}

// refuseOther returns what is wrong with an endpoint that is not the Cluster's, where that has one: kubeadm and
// every kubeconfig use the Cluster's, and the hosts would hold another address, or serve at another port.
func refuseOther(s *scope) *problem {
	endpoint, known := s.hostCluster.Spec.ControlPlaneEndpoint, s.cluster.Spec.ControlPlaneEndpoint
	if !heldByHosts(s.hostCluster) || provisioned(s.hostCluster) || !known.IsValid() || sameAddress(endpoint.Host, known.Host) && endpoint.Port == known.Port {
		return nil
	}
	return &problem{infrav1.HostClusterEndpointInvalidReason, fmt.Sprintf("spec.controlPlaneEndpoint is %s, and that of Cluster %s is %s, which kubeadm and clients use: "+
		"create the Cluster anew with one endpoint, set in the HostCluster alone", endpoint.String(), s.cluster.Name, known.String())}
}

// checkEndpoint returns what is wrong with an endpoint, or nil.
func checkEndpoint(spec infrav1.HostClusterSpec) *problem {
	address := spec.ControlPlaneEndpoint.Host
	external := spec.Endpoint.Type == infrav1.EndpointExternal
	switch {
	case address == "" && external:
		return &problem{infrav1.HostClusterEndpointMissingReason, "Set spec.controlPlaneEndpoint.host to the address of your load balancer"}
	case address == "":
		return &problem{infrav1.HostClusterEndpointMissingReason, "Set spec.controlPlaneEndpoint.host to an unused IP address of the hosts' network"}
	case external:
		return nil
	}
	ip, err := netip.ParseAddr(address)
	if err == nil && (!ip.IsGlobalUnicast() || ip.Zone() != "") {
		return &problem{infrav1.HostClusterEndpointInvalidReason, fmt.Sprintf("spec.controlPlaneEndpoint.host %s is an address that no other machine reaches, "+
			"or not one of a single machine; create the Cluster anew with an unused address of the hosts' network", address)}
	}
	if err != nil {
		return &problem{infrav1.HostClusterEndpointInvalidReason, fmt.Sprintf("spec.controlPlaneEndpoint.host %q is not an IP address: with endpoint type HostVIP "+
			"the hosts hold it; create the Cluster anew with an IP address, or with spec.endpoint.type External", address)}
	}
	if why := host.RefusePort(spec.ControlPlaneEndpoint.Port); why != "" {
		return &problem{infrav1.HostClusterEndpointInvalidReason, "spec.controlPlaneEndpoint.port: " + why + "; create the Cluster anew"}
	}
	return nil
}

// refuseHostAddress finds an endpoint that is a host's own address before any machine claims a host.
// The agent of a holder would take it off its interface later. Hosts leave the endpoint that they hold
// out of their addresses.
func (r *Reconciler) refuseHostAddress(_ context.Context, s *scope) error {
	endpoint := s.hostCluster.Spec.ControlPlaneEndpoint.Host
	external := s.hostCluster.Spec.Endpoint.Type == infrav1.EndpointExternal
	if s.problem != nil || external || provisioned(s.hostCluster) {
		return nil
	}
	for i := range s.hosts {
		for _, address := range s.hosts[i].Status.Addresses {
			if sameAddress(address.Address, endpoint) {
				s.problem = &problem{infrav1.HostClusterEndpointOfHostReason, fmt.Sprintf("spec.controlPlaneEndpoint.host %s is the own address of Host %s, which would lose it: "+
					"create the Cluster anew with an address that no machine has, or with spec.endpoint.type External", endpoint, s.hosts[i].Name)}
				return nil
			}
		}
	}
	return nil
}

// refuseSharedEndpoint finds an endpoint that another cluster of the namespace has, live, before any machine
// claims a host: each of the two would add the address during an election of the other. The cluster
// that came first keeps it, and so does one that has hosts, as after a move. Clusters of other
// namespaces are those of other tenants, who must not be able to keep this one from being made.
func (r *Reconciler) refuseSharedEndpoint(ctx context.Context, s *scope) error {
	if s.problem != nil || !heldByHosts(s.hostCluster) || provisioned(s.hostCluster) ||
		slices.ContainsFunc(s.hosts, func(h infrav1.Host) bool {
			return host.OfControlPlane(&h) && h.Spec.Claim.ClusterName == s.cluster.Name
		}) {
		return nil
	}
	all := &infrav1.HostClusterList{}
	if err := r.APIReader.List(ctx, all, client.InNamespace(s.hostCluster.Namespace)); err != nil {
		return fmt.Errorf("list the other clusters of the namespace: %w", err)
	}
	for i := range all.Items {
		if other := &all.Items[i]; sharesEndpoint(s.hostCluster, other) && comesBefore(other, s.hostCluster) {
			s.problem = &problem{infrav1.HostClusterEndpointOfClusterReason, fmt.Sprintf("spec.controlPlaneEndpoint.host %s is the endpoint of HostCluster %s as well, whose hosts would lose it: "+
				"create this Cluster anew with an address that no machine has, or delete the Cluster of the other", s.hostCluster.Spec.ControlPlaneEndpoint.Host, other.Name)}
			return nil
		}
	}
	return nil
}

func sharesEndpoint(hostCluster, other *infrav1.HostCluster) bool {
	return other.Name != hostCluster.Name && heldByHosts(other) && sameAddress(other.Spec.ControlPlaneEndpoint.Host, hostCluster.Spec.ControlPlaneEndpoint.Host)
}

// comesBefore says which of two clusters keeps the endpoint, the same for both.
func comesBefore(other, hostCluster *infrav1.HostCluster) bool {
	if provisioned(other) {
		return true
	}
	order := other.CreationTimestamp.Compare(hostCluster.CreationTimestamp.Time)
	return order < 0 || order == 0 && other.Name < hostCluster.Name
}

// provisioned says that core was told to go on with the endpoint.
func provisioned(hostCluster *infrav1.HostCluster) bool {
	return ptr.Deref(hostCluster.Status.Initialization.Provisioned, false)
}

// heldByHosts says whether the hosts of the cluster have its endpoint, not a load balancer.
func heldByHosts(hostCluster *infrav1.HostCluster) bool {
	return hostCluster.Spec.Endpoint.Type != infrav1.EndpointExternal && !annotations.IsExternallyManaged(hostCluster)
}

func setReady(s *scope) {
	condition := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostClusterProvisionedReason}
	switch {
	case s.problem != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, s.problem.reason, s.problem.message
	case !s.hostCluster.DeletionTimestamp.IsZero():
		condition.Status, condition.Reason = metav1.ConditionFalse, clusterv1.DeletingReason
	}
	conditions.Set(s.hostCluster, condition)
}
