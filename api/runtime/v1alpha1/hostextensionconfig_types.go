package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// HostExtensionConfigSpec says where an extension is and for which objects it is called.
type HostExtensionConfigSpec struct {
	// clientConfig says how to reach the extension, as in upstream's
	// ExtensionConfig: exactly one of url and service. The annotation
	// runtime.cluster.x-k8s.io/inject-ca-from-secret fills in caBundle.
	// +required
	ClientConfig runtimev1.ClientConfig `json:"clientConfig,omitempty,omitzero"`

	// namespaceSelector selects the namespaces of the HostMachines and Hosts that
	// the extension is called for. Default: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// objectSelector selects the HostMachines (BeforeHostClaim) and Hosts
	// (AfterHostRelease) that the extension is called for. Default: all.
	// +optional
	ObjectSelector *metav1.LabelSelector `json:"objectSelector,omitempty"`

	// matchCondition is a CEL expression over the variable object, the HostMachine
	// or Host, that must be true for the extension to be called; for example
	// object.metadata.name.startsWith("gpu-"). An expression that fails holds the
	// operation back. Default: true.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	MatchCondition string `json:"matchCondition,omitempty"`

	// settings are passed on with each call.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}

// HostExtensionConfigStatus is what was last observed.
// +kubebuilder:validation:MinProperties=1
type HostExtensionConfigStatus struct {
	// conditions: Discovered, HandlersAvailable, HooksUpToDate and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// handlers that the extension named at the last successful discovery, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Handlers []runtimev1.ExtensionHandler `json:"handlers,omitempty"`
}

// HostExtensionConfig registers a runtime extension for the hooks of this
// provider, BeforeHostClaim and AfterHostRelease. Upstream's ExtensionConfig
// cannot: its discovery refuses hooks that Cluster API does not know.
//
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name must be a DNS label: it is part of the names of the handlers"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostextensionconfigs,scope=Cluster,shortName=hext,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Discovered",type="string",JSONPath=".status.conditions[?(@.type=='Discovered')].status",description="Whether the extension answers discovery"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=".status.conditions[?(@.type=='HandlersAvailable')].status",description="Whether all handlers are called"
// +kubebuilder:printcolumn:name="UpToDate",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='HooksUpToDate')].status",description="Whether no deprecated hook version is in use"
// +kubebuilder:printcolumn:name="Paused",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Paused')].status",description="Reconciliation paused"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostExtensionConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says where the extension is and for which objects it is called.
	// +required
	Spec HostExtensionConfigSpec `json:"spec,omitempty,omitzero"`

	// status is what was last observed.
	// +optional
	Status HostExtensionConfigStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (c *HostExtensionConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *HostExtensionConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// HostExtensionConfigList is a list of HostExtensionConfigs.
type HostExtensionConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostExtensionConfig `json:"items"`
}
