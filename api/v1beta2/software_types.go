package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// KubernetesReleaseSpec names the host bundle that brings a Kubernetes version to hosts.
type KubernetesReleaseSpec struct {
	// version of Kubernetes with a leading v, for example v1.36.3. The object has its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9a-z]+([.-][0-9a-z]+)*)?$`
	Version string `json:"version,omitempty"`

	// digest of the index of the host bundle, which is what its signature vouches for:
	// "sha256:" and 64 hexadecimal digits. Hosts install that bundle and no other one, and
	// only once the signature holds by a key of their own. Another digest is for the
	// hosts that install the version from then on.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// architectures that the bundle is for, as Go names them: amd64, arm64.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]+$`
	Architectures []string `json:"architectures,omitempty"`

	// origin says who built the programs and images of the bundle, as the bundle records it. It
	// is for people: hosts install the bundle of the digest.
	// +optional
	Origin SoftwareOrigin `json:"origin,omitempty"`
}

// KubernetesRelease is a Kubernetes version that hosts install on demand: those whose
// agent says in status.software.management of the Host that their software is Managed. A
// Machine of the version may then have a host which lacks it. `slipway bundle load` writes
// it. What hosts installed stays when it is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:storageversion
// +kubebuilder:resource:path=kubernetesreleases,scope=Cluster,shortName=swr,categories=slipway
// +kubebuilder:printcolumn:name="Architectures",type="string",JSONPath=".spec.architectures",description="Architectures that the bundle is for"
// +kubebuilder:printcolumn:name="Origin",type="string",JSONPath=".spec.origin",description="Who built it: Upstream or OwnBuild"
// +kubebuilder:printcolumn:name="Digest",type="string",priority=10,JSONPath=".spec.digest",description="Digest of the host bundle"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the version was first loaded"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.version",message="a KubernetesRelease has the name of its spec.version"
type KubernetesRelease struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec names the host bundle.
	// +required
	Spec KubernetesReleaseSpec `json:"spec,omitempty,omitzero"`
}

// KubernetesReleaseList is a list of KubernetesReleases.
//
// +kubebuilder:object:root=true
type KubernetesReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []KubernetesRelease `json:"items"`
}
