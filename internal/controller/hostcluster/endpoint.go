package hostcluster

import (
	"context"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// problem is a reason and message for the condition Ready.
type problem struct{ reason, message string }

// ensureEndpoint completes the endpoint and checks it. Nothing is allocated here:
// only the user knows which address of the network is free.
func (r *Reconciler) ensureEndpoint(_ context.Context, s *scope) error {
	endpoint := &s.hostCluster.Spec.ControlPlaneEndpoint
	if endpoint.IsZero() {
		*endpoint = s.cluster.Spec.ControlPlaneEndpoint
	}
	if endpoint.Host != "" && endpoint.Port == 0 {
		endpoint.Port = DefaultPort
	}
	s.problem = checkEndpoint(s.hostCluster.Spec)
	return nil
}

// checkEndpoint returns what is wrong with an endpoint, or nil.
func checkEndpoint(spec infrav1.HostClusterSpec) *problem {
	host := spec.ControlPlaneEndpoint.Host
	external := spec.Endpoint.Type == infrav1.EndpointExternal
	switch {
	case host == "" && external:
		return &problem{infrav1.HostClusterEndpointMissingReason, "Set spec.controlPlaneEndpoint.host to the address of your load balancer"}
	case host == "":
		return &problem{infrav1.HostClusterEndpointMissingReason, "Set spec.controlPlaneEndpoint.host to an unused IP address of the hosts' network"}
	case external:
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err == nil && !ip.IsGlobalUnicast() {
		return &problem{infrav1.HostClusterEndpointInvalidReason, fmt.Sprintf("spec.controlPlaneEndpoint.host %s is an address that no other machine reaches, "+
			"or not one of a single machine; create the Cluster anew with an unused address of the hosts' network", host)}
	}
	if err != nil {
		return &problem{infrav1.HostClusterEndpointInvalidReason, fmt.Sprintf("spec.controlPlaneEndpoint.host %q is not an IP address: with endpoint type HostVIP "+
			"the hosts hold it; create the Cluster anew with an IP address, or with spec.endpoint.type External", host)}
	}
	return nil
}

// refuseHostAddress finds an endpoint that is a host's own address before any machine claims a host.
// The agent of a holder would take it off its interface later. Hosts leave the endpoint that they hold
// out of their addresses.
func (r *Reconciler) refuseHostAddress(_ context.Context, s *scope) error {
	endpoint := s.hostCluster.Spec.ControlPlaneEndpoint.Host
	external := s.hostCluster.Spec.Endpoint.Type == infrav1.EndpointExternal
	if s.problem != nil || external || ptr.Deref(s.hostCluster.Status.Initialization.Provisioned, false) {
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
