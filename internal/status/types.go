package status

import (
	"time"

	"github.com/slipway-dev/slipway/internal/snapshot"
)

// What a snapshot is taken of.
type (
	// Scope narrows a status.
	Scope = snapshot.Scope
	// Plane is the management cluster itself.
	Plane = snapshot.Plane
	// PlaneCrashes tells how often a plane ended by itself.
	PlaneCrashes = snapshot.PlaneCrashes
)

// Status is the state of a management cluster.
type Status struct {
	// Plane is the management cluster itself.
	Plane Plane `json:"plane"`
	// Clusters, sorted by namespace and name.
	Clusters []Cluster `json:"clusters"`
	// Hosts, sorted by namespace and name.
	Hosts []Host `json:"hosts"`
}

// Replicas counts machines.
type Replicas struct {
	// Desired by the spec.
	Desired int32 `json:"desired"`
	// Ready now.
	Ready int32 `json:"ready"`
}

// Cluster is one workload cluster.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Phase of the Cluster object.
	Phase string `json:"phase"`
	// State is how it is.
	State State `json:"state"`
	// ControlPlane counts its machines.
	ControlPlane Replicas `json:"controlPlane"`
	// Pools are the machine pools and machine deployments.
	Pools []Pool `json:"pools"`
	// Nodes as the workload cluster reports them; empty while it cannot be reached.
	Nodes []Node `json:"nodes"`
	// NodesUnknown says why the user may not see the nodes.
	NodesUnknown string `json:"nodesUnknown,omitempty"`
	// Waiting says what the cluster waits for and what to do, one entry a cause.
	Waiting []string `json:"waiting,omitempty"`
}

// Pool is a set of workers.
type Pool struct {
	// Name in the Cluster's topology, or of the object when it has none.
	Name string `json:"name"`
	// Kind is MachinePool or MachineDeployment.
	Kind string `json:"kind"`
	Replicas
}

// Node of a workload cluster.
type Node struct {
	Name       string `json:"name"`
	Ready      bool   `json:"ready"`
	ProviderID string `json:"providerID"`
	// Version of its kubelet.
	Version string `json:"version"`
	// BootID of the boot in which the kubelet last reported.
	BootID string `json:"bootID"`
}

// Host is one machine with an agent.
type Host struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Phase of the Host object.
	Phase string `json:"phase"`
	// State is how it is.
	State State `json:"state"`
	// Connected is true while the agent's heartbeat is fresh.
	Connected bool `json:"connected"`
	// ClaimedBy is <cluster>/<machine>, empty when the host is free.
	ClaimedBy string   `json:"claimedBy"`
	Addresses []string `json:"addresses"`
	// FailureDomain is the zone that the host stands in, such as a rack.
	FailureDomain string `json:"failureDomain,omitempty"`
	// Approval is Pending, Approved or Denied; empty counts as approved.
	Approval string `json:"approval,omitempty"`
	// Architecture as Go names it, such as amd64; empty until the agent has reported.
	Architecture string `json:"architecture,omitempty"`
	// Machine is who made the host and how it is called, such as "Dell Inc. PowerEdge R650".
	Machine string `json:"machine,omitempty"`
	// Versions of Kubernetes that the host has.
	Versions []Version `json:"versions,omitempty"`
	// Cgroups is V1 or V2; empty until the agent has reported it.
	Cgroups string `json:"cgroups,omitempty"`
	// Created is when the Host was.
	Created time.Time `json:"-"`
	// RebootRequiredSince is when its operating system first asked for a reboot; nil while it does not.
	RebootRequiredSince *time.Time `json:"rebootRequiredSince,omitempty"`
	// MachineID is what the agent reports of /etc/machine-id.
	MachineID string `json:"-"`
}

// Version is a Kubernetes version on a host.
type Version struct {
	Version string `json:"version"`
	// Origin is Upstream or OwnBuild for one of a host bundle; Packages for one that the operator
	// of the host installed.
	Origin string `json:"origin"`
}

// OriginPackages is what the operator of a host installed, and of a local host its node bundle.
const OriginPackages = "Packages"

func (v Version) String() string { return v.Version + " (" + v.Origin + ")" }
