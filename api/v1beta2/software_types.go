package v1beta2

// HostSoftwareManagement says who brings Kubernetes versions to a host.
// +kubebuilder:validation:Enum=Managed;Provided
type HostSoftwareManagement string

const (
	// HostSoftwareManaged is a host whose agent installs versions on demand, from host bundles
	// that are signed by a key of the host, and removes those that nothing uses.
	HostSoftwareManaged HostSoftwareManagement = "Managed"
	// HostSoftwareProvided is a host whose operator installs versions.
	HostSoftwareProvided HostSoftwareManagement = "Provided"
)

// SoftwareOrigin says who built the programs and images of a host bundle.
// +kubebuilder:validation:Enum=Upstream;OwnBuild
type SoftwareOrigin string

const (
	// SoftwareOriginUpstream means that they are the bytes that upstream published.
	SoftwareOriginUpstream SoftwareOrigin = "Upstream"
	// SoftwareOriginOwnBuild means that Slipway's build compiled them from upstream's sources.
	SoftwareOriginOwnBuild SoftwareOrigin = "OwnBuild"
)

// HostSoftware is what the agent says of the software of its host.
type HostSoftware struct {
	// management says who brings Kubernetes versions, as the agent's configuration has it.
	// Agents that do not tell install nothing.
	// +optional
	Management HostSoftwareManagement `json:"management,omitempty"`

	// agentManagement says who brings versions of slipway-agent: Managed is an agent that
	// updates itself, Provided one that a package manager or an operator updates. Agents that
	// do not tell do not update themselves.
	// +optional
	AgentManagement HostSoftwareManagement `json:"agentManagement,omitempty"`

	// releases are the host bundles on the host, from the first installed to the last. What
	// else offers versions is in status.inventory.kubernetesVersions alone.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Releases []HostSoftwareRelease `json:"releases,omitempty"`
}

// HostSoftwareRelease is a host bundle on a host.
type HostSoftwareRelease struct {
	// version of Kubernetes that it brought.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// digest of its index, as in a KubernetesRelease; unset of one that an earlier agent
	// installed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`

	// origin says who built it; unset by agents that do not tell.
	// +optional
	Origin SoftwareOrigin `json:"origin,omitempty"`

	// complete is false while it is being installed or removed.
	// +optional
	Complete *bool `json:"complete,omitempty"`
}

// HostAgentSpec is the version of slipway-agent that a host is asked to run.
type HostAgentSpec struct {
	// version of slipway-agent with a leading v. An agent does not go back to an older one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// releaseDigest is the digest of the index of the bundle that has it, as in an
	// AgentRelease. The agent installs that one or none, and only once a signature by a key
	// of its host holds.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	ReleaseDigest string `json:"releaseDigest,omitempty"`
}

// HostAgentUpdateState says how far an agent is with its update.
// +kubebuilder:validation:Enum=Fetching;Trying;Failed
type HostAgentUpdateState string

const (
	// HostAgentUpdateFetching means that the agent fetches the bundle, or waits until it can.
	HostAgentUpdateFetching HostAgentUpdateState = "Fetching"
	// HostAgentUpdateTrying means that the new agent runs and has not shown yet that it
	// reaches the management cluster.
	HostAgentUpdateTrying HostAgentUpdateState = "Trying"
	// HostAgentUpdateFailed means that the new agent did not report in time, and the former
	// one runs again. It does not try the same bundle any more.
	HostAgentUpdateFailed HostAgentUpdateState = "Failed"
)

// HostAgentUpdate is what an agent did about spec.agent of its Host.
type HostAgentUpdate struct {
	// version that the report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`

	// releaseDigest that the report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ReleaseDigest string `json:"releaseDigest,omitempty"`

	// state says how far it is.
	// +required
	State HostAgentUpdateState `json:"state,omitempty"`

	// message tells what stands in the way and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}
