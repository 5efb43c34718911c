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

// HostSoftware is what the agent says of the software of its host.
type HostSoftware struct {
	// management says who brings Kubernetes versions, as the agent's configuration has it.
	// Agents that do not tell install nothing.
	// +optional
	Management HostSoftwareManagement `json:"management,omitempty"`

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

	// complete is false while it is being installed or removed.
	// +optional
	Complete *bool `json:"complete,omitempty"`
}
