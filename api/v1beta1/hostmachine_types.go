package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/api/v1beta2"
)

// HostMachineStatus is what was last observed. It has no failureReason: a machine
// whose bootstrap failed for good says so in its conditions, where it can recover.
type HostMachineStatus struct {
	// ready is true when the machine is fully provisioned. It never goes back to
	// false.
	// +optional
	Ready bool `json:"ready"`

	// addresses of the host, copied to the Machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain the host stands in, copied to the Machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// version is the Kubernetes version the host runs: that of its last bootstrap
	// or upgrade which succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// hostRef is the claimed host.
	// +optional
	HostRef v1beta2.HostReference `json:"hostRef,omitempty,omitzero"`

	// conditions: Ready, HostClaimed, BootstrapSucceeded and Paused. They are those of v1beta2:
	// Cluster API reads them in both forms it knows.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostMachine is a Machine on a Host.
//
// The rules are those of v1beta2: they are checked in the version of the request.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?claimID.orValue(\"\") in [\"\", self.?spec.?claimID.orValue(\"\")]",message="spec.claimID is set by the controller and cannot change: a machine keeps its host for life"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?providerID.orValue(\"\") in [\"\", self.?spec.?providerID.orValue(\"\")]",message="spec.providerID is set by the controller and cannot change"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?adopt.?hostName.orValue(\"\") in [self.?spec.?adopt.?hostName.orValue(\"\")]",message="spec.adopt cannot change: delete the Machine and make another one"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostmachines,scope=Namespaced,shortName=swm,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hostmachines of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".status.hostRef.name",description="Claimed host"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.ready",description="Whether provisioning is done"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Ready condition"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Adopts",type="string",priority=10,JSONPath=".spec.adopt.hostName",description="Host whose node it takes over"
// +kubebuilder:printcolumn:name="ProviderID",type="string",priority=10,JSONPath=".spec.providerID",description="Provider ID"
// +kubebuilder:printcolumn:name="Message",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Ready')].message",description="Message of the Ready condition"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachine struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec v1beta2.HostMachineSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (o *HostMachine) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions.
func (o *HostMachine) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// HostMachineList is a list of HostMachines.
//
// +kubebuilder:object:root=true
type HostMachineList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostMachine `json:"items"`
}

// HostMachineTemplate is used by MachineDeployments, control planes and
// ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostmachinetemplates,scope=Namespaced,shortName=swmt,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hostmachinetemplates of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec v1beta2.HostMachineTemplateSpec `json:"spec"`
	// status is what was last observed.
	// +optional
	Status v1beta2.HostMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// HostMachineTemplateList is a list of HostMachineTemplates.
//
// +kubebuilder:object:root=true
type HostMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostMachineTemplate `json:"items"`
}
