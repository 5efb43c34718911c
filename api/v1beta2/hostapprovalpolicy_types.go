package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostApprovalPolicyName is the name of the one HostApprovalPolicy of a namespace.
const HostApprovalPolicyName = "default"

// HostApprovalMode says who approves the hosts that enroll into a namespace.
// +kubebuilder:validation:Enum=Auto;Manual;Match
type HostApprovalMode string

const (
	// HostApprovalAuto approves each host that enrolls, as in a namespace without a
	// HostApprovalPolicy.
	HostApprovalAuto HostApprovalMode = "Auto"
	// HostApprovalManual approves none: somebody with the verb approve on hosts does.
	HostApprovalManual HostApprovalMode = "Manual"
	// HostApprovalMatch approves the hosts of spec.hosts. The others wait as in Manual.
	HostApprovalMatch HostApprovalMode = "Match"
)

// HostApprovalPolicySpec says which hosts are approved without anybody looking.
//
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Match') == has(self.hosts)",message="spec.hosts is for mode Match, which needs it"
type HostApprovalPolicySpec struct {
	// mode says who approves the hosts that enroll.
	// +required
	Mode HostApprovalMode `json:"mode,omitempty"`

	// hosts are those that mode Match approves: a host that fits one of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5000
	Hosts []HostMatch `json:"hosts,omitempty"`
}

// HostMatch describes hosts. All fields that are set must fit.
//
// +kubebuilder:validation:MinProperties=1
type HostMatch struct {
	// name of the Host. Who enrolls chooses it, so it proves nothing by itself: bind
	// tokens to names, or set hostID, too.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// machineID is /etc/machine-id of the machine, as its agent tells it once it is
	// enrolled. It is no secret to the other programs of the machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	MachineID string `json:"machineID,omitempty"`

	// hostID is spec.hostID of the Host, the hash of the agent's public key. It alone is
	// proved: a certificate request is signed with the key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	HostID string `json:"hostID,omitempty"`
}

// HostApprovalPolicy says which of the hosts that enroll into its namespace may be
// claimed at once, and which wait for Host.spec.approval. There is one in a namespace,
// named default; without it every host is approved. It is asked when a host enrolls, and
// for hosts that are Pending again when it changes. Hosts that are approved stay so, and
// its deletion approves none.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostapprovalpolicies,scope=Namespaced,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.mode",description="Who approves hosts that enroll"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the policy was made"
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="a namespace has one HostApprovalPolicy, named default"
type HostApprovalPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says which hosts are approved.
	// +required
	Spec HostApprovalPolicySpec `json:"spec,omitempty,omitzero"`
}

// HostApprovalPolicyList is a list of HostApprovalPolicies.
//
// +kubebuilder:object:root=true
type HostApprovalPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostApprovalPolicy `json:"items"`
}
