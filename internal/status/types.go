package status

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
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

// Plane is the management cluster itself: a plane of this machine, or any other.
type Plane struct {
	// Ready is true when every component is; of one that is not a plane, when it answers.
	Ready bool `json:"ready"`
	// Message says why it is not ready.
	Message string `json:"message,omitempty"`
	// PID of the process, 0 when it is not running.
	PID int `json:"pid,omitempty"`
	// Server is the address of the API server, as seen from this machine.
	Server string `json:"server,omitempty"`
	// HostServer is the address of the API server as hosts on other machines see it, of a
	// plane that listens for them.
	HostServer string `json:"hostServer,omitempty"`
	// HostServerMessage says why they do not reach it there.
	HostServerMessage string `json:"hostServerMessage,omitempty"`
	// Service tells how systemd runs it, of a plane that is a service of its machine.
	Service string `json:"service,omitempty"`
	// Crashes of a plane of `slipway up` since that started it; nil when there were none.
	Crashes *PlaneCrashes `json:"crashes,omitempty"`
	// Unsupervised is true for a plane of `slipway up` whose supervisor has ended: nobody starts it
	// again after a crash.
	Unsupervised bool `json:"unsupervised,omitempty"`
	// Context of the kubeconfig, of a management cluster that is not a plane of this
	// machine.
	Context string `json:"context,omitempty"`
}

// PlaneCrashes tells how often a plane ended by itself.
type PlaneCrashes struct {
	// Count of all.
	Count int `json:"count"`
	// Last is when it did so the last time.
	Last time.Time `json:"last"`
	// Reason of the last one: the first line of a panic, say.
	Reason string `json:"reason"`
}

// Summary is them in a line, as of now.
func (c *PlaneCrashes) Summary(now time.Time) string {
	ago := duration.HumanDuration(now.Sub(c.Last))
	if c.Count == 1 {
		return fmt.Sprintf("once, %s ago: %s", ago, c.Reason)
	}
	return fmt.Sprintf("%d times, the last %s ago: %s", c.Count, ago, c.Reason)
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
	// MachineID is what the agent reports of /etc/machine-id.
	MachineID string `json:"-"`
	// Message says what the host is doing or what is wrong with it.
	Message string `json:"message,omitempty"`
}
