package v1beta2

// Reasons of the condition Ready of a HostCluster, besides Deleting of Cluster API.
const (
	// HostClusterProvisionedReason means that the endpoint is known, and no problem with it.
	HostClusterProvisionedReason = "Provisioned"
	// HostClusterEndpointMissingReason means that there is no endpoint. Set
	// spec.controlPlaneEndpoint.host, as the message says.
	HostClusterEndpointMissingReason = "EndpointMissing"
	// HostClusterEndpointInvalidReason means that hosts cannot hold the endpoint, which is
	// not an IP address, or not the one of the Cluster. Create the Cluster anew, as the message says.
	HostClusterEndpointInvalidReason = "EndpointInvalid"
	// HostClusterEndpointOfHostReason means that the endpoint is the address of the host in the
	// message: it would move away from that host. Create the Cluster anew with an address that no
	// machine has, or with endpoint type External.
	HostClusterEndpointOfHostReason = "EndpointOfHost"
	// HostClusterEndpointOfClusterReason means that the hosts of the cluster in the message, of the same
	// namespace, hold the endpoint already. Create the Cluster anew with an address that no machine has,
	// or delete the other one.
	HostClusterEndpointOfClusterReason = "EndpointOfCluster"
	// HostClusterWaitingForControlPlaneReason means that the object in the message is not
	// there yet, which says where control planes may be. Create it.
	HostClusterWaitingForControlPlaneReason = "WaitingForControlPlane"
)

// Reasons of the condition EndpointHeld of a HostCluster.
const (
	// EndpointHeldReason means that the host in the message has the address, and that the API
	// server answers at address and port.
	EndpointHeldReason = "Held"
	// EndpointNotCheckedReason means that the host in the message has the address, and that
	// nobody checks whether an API server answers at the port: an earlier version made the host
	// a node, and did not tell it the port. It ends with a new machine for that host.
	EndpointNotCheckedReason = "NotChecked"
	// EndpointHolderAwayReason means that the holder's agent is not connected: it may hold
	// the address still, or another that is not connected either. Look at that host.
	EndpointHolderAwayReason = "HolderNotConnected"
	// EndpointNotHeldReason means that no host has the address. The message has what each host
	// reports.
	EndpointNotHeldReason = "NotHeld"
	// EndpointNotAnsweringReason means that no API server answers at the address and port of
	// the control plane. While its first host bootstraps, wait. Later the message has what
	// each host says, such as an API server that listens at another port: give
	// localAPIEndpoint.bindPort of initConfiguration and of joinConfiguration.controlPlane
	// the port of the endpoint, and make the machine anew.
	EndpointNotAnsweringReason = "APIServerNotAnswering"
	// EndpointContestedReason means that a machine that is not of this control plane has the
	// address, or that the host that holds it reports another problem with it. The message
	// has the machine and what to do.
	EndpointContestedReason = "Contested"
	// EndpointHeldTwiceReason means that two hosts of this control plane have the address. Do
	// not remove it by hand: the one that is not elected gives it up within seconds. If that
	// lasts, look at slipway-agent on both.
	EndpointHeldTwiceReason = "HeldTwice"
	// EndpointNoCandidateReason means that no control-plane machine has a host yet. Look at
	// the condition HostClaimed of those.
	EndpointNoCandidateReason = "NoControlPlaneHost"
)
