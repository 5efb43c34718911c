package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentReleaseSpec names the bundle that brings a version of slipway-agent to hosts.
type AgentReleaseSpec struct {
	// version of slipway-agent with a leading v, for example v0.9.1. The object has its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9a-z]+([.-][0-9a-z]+)*)?$`
	Version string `json:"version,omitempty"`

	// digest of the index of the bundle, which is what its signature vouches for: "sha256:"
	// and 64 hexadecimal digits. Agents install that bundle and no other one, and only once
	// the signature holds by a key of their host.
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

	// paused holds the rollout: no further agent is asked to update. Those that were asked
	// already go on. Default false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// AgentReleaseStatus tells how far the rollout is. It can be lost at any time, and is
// rebuilt from the Hosts.
type AgentReleaseStatus struct {
	// conditions: RolledOut.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// hosts is how many hosts have an agent that updates itself, in all namespaces that the
	// manager serves.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Hosts *int32 `json:"hosts,omitempty"`

	// updated is how many of them run this version, or a newer one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Updated *int32 `json:"updated,omitempty"`

	// failed is how many of them tried this version, and went back to the former one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed *int32 `json:"failed,omitempty"`

	// failureDomain is the one whose hosts update now; unset for hosts without one, and when
	// none does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
}

// AgentRelease is a version of slipway-agent that hosts update to by themselves: those whose
// agent says so in status.software.agentManagement of the Host. slipway-manager rolls out the
// release of its own version, one failure domain at a time, and stops at the first host whose
// agent went back to its former version. `slipway bundle load` writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:storageversion
// +kubebuilder:resource:path=agentreleases,scope=Cluster,shortName=swa,categories=slipway
// +kubebuilder:printcolumn:name="Hosts",type="integer",JSONPath=".status.hosts",description="Hosts whose agent updates itself"
// +kubebuilder:printcolumn:name="Updated",type="integer",JSONPath=".status.updated",description="Hosts that run the version, or a newer one"
// +kubebuilder:printcolumn:name="Failed",type="integer",JSONPath=".status.failed",description="Hosts that went back to the former version"
// +kubebuilder:printcolumn:name="Rolled out",type="string",JSONPath=".status.conditions[?(@.type=='RolledOut')].status",description="Whether all of them run the version"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='RolledOut')].reason",description="Reason of the RolledOut condition"
// +kubebuilder:printcolumn:name="Failure domain",type="string",priority=10,JSONPath=".status.failureDomain",description="Failure domain whose hosts update now"
// +kubebuilder:printcolumn:name="Architectures",type="string",priority=10,JSONPath=".spec.architectures",description="Architectures that the bundle is for"
// +kubebuilder:printcolumn:name="Digest",type="string",priority=10,JSONPath=".spec.digest",description="Digest of the bundle"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the version was first loaded"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.version",message="an AgentRelease has the name of its spec.version"
type AgentRelease struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec names the bundle.
	// +required
	Spec AgentReleaseSpec `json:"spec,omitempty,omitzero"`
	// status tells how far the rollout is.
	// +optional
	Status AgentReleaseStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (o *AgentRelease) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions.
func (o *AgentRelease) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// AgentReleaseList is a list of AgentReleases.
//
// +kubebuilder:object:root=true
type AgentReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []AgentRelease `json:"items"`
}

// AgentReleaseRolledOutCondition says whether all agents that update themselves run the
// version, or a newer one.
const AgentReleaseRolledOutCondition = "RolledOut"

// Reasons of the condition RolledOut of an AgentRelease.
const (
	// AgentReleaseRolledOutReason means that all agents that update themselves run the
	// version.
	AgentReleaseRolledOutReason = "RolledOut"
	// AgentReleaseRollingOutReason means that agents are being updated; the message has the failure
	// domain, and the hosts it waits for.
	AgentReleaseRollingOutReason = "RollingOut"
	// AgentReleasePausedReason means that spec.paused holds the rollout.
	AgentReleasePausedReason = "Paused"
	// AgentReleaseHaltedReason means that an agent returned to its previous version, and no other
	// one updates. The message names the host; its Host and the log of slipway-agent there have
	// why. Load a corrected release.
	AgentReleaseHaltedReason = "Halted"
	// AgentReleaseNotOfManagerReason means that the release is of another version than the
	// manager, which rolls out its own one. Upgrade the manager to roll it out.
	AgentReleaseNotOfManagerReason = "NotOfManager"
)
