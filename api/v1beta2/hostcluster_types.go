package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EndpointType says who holds the address of the control plane.
// +kubebuilder:validation:Enum=HostVIP;External
type EndpointType string

const (
	// EndpointHostVIP lets the agents of the control-plane hosts hold the
	// address. It is the default.
	EndpointHostVIP EndpointType = "HostVIP"

	// EndpointExternal means that the user's load balancer or DNS holds it.
	EndpointExternal EndpointType = "External"
)

// HostClusterSpec is the desired infrastructure of a Cluster.
type HostClusterSpec struct {
	// controlPlaneEndpoint is the address of the workload cluster's API server.
	// With endpoint type HostVIP the host is an unused IP address of the hosts'
	// network. The port is 6443 when only the host is set. Cluster.spec.controlPlaneEndpoint
	// is taken over when it is unset.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// endpoint says who holds controlPlaneEndpoint.
	// +optional
	Endpoint EndpointSpec `json:"endpoint,omitempty,omitzero"`

	// failureDomainLabel is the label of Hosts whose values are the failure
	// domains of the cluster. When it is empty, Host.spec.failureDomain is used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	FailureDomainLabel string `json:"failureDomainLabel,omitempty"`

	// failureDomains are the failure domains of the cluster, with attributes for
	// templates and people. Those that hosts name are used when it is empty. Where
	// controlPlane is unset, the control plane may use a domain as long as a host there
	// matches the hostSelector of a KubeadmControlPlane and offers its version, and is
	// neither unschedulable, evacuated nor claimed by another machine; and only where
	// such a host is free, as long as there is one in any domain that it may use.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// EndpointSpec says who holds the address of the control plane.
// +kubebuilder:validation:MinProperties=1
type EndpointSpec struct {
	// type is HostVIP or External; HostVIP when unset. It cannot change once
	// controlPlaneEndpoint is set: hosts are told with their bootstrap.
	// +optional
	// +kubebuilder:default=HostVIP
	Type EndpointType `json:"type,omitempty"`
}

// InitializationStatus is the contract's report that provisioning is done. It
// never goes back to false (contract, "initialization completed").
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// provisioned is true when the infrastructure is fully provisioned.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// HostClusterStatus is what was last observed.
// +kubebuilder:validation:MinProperties=1
type HostClusterStatus struct {
	// conditions: Ready, Paused, and EndpointHeld with endpoint type HostVIP.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the contract's report that provisioning is done.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains that the hosts of the namespace offer.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// deprecated keeps what only an older contract version has. A Go field of that
	// name would make the patch helper of Cluster API look for v1beta1 conditions in it.
	// +optional
	DeprecatedVersions HostClusterDeprecatedStatus `json:"deprecated,omitempty,omitzero"`
}

// HostClusterDeprecatedStatus keeps what only an older contract version has, under
// the name of that version.
// +kubebuilder:validation:MinProperties=1
type HostClusterDeprecatedStatus struct {
	// v1beta1 keeps what only contract version v1beta1 has.
	// +optional
	V1Beta1 HostClusterV1Beta1DeprecatedStatus `json:"v1beta1,omitempty,omitzero"`
}

// HostClusterV1Beta1DeprecatedStatus is the terminal failure of contract version
// v1beta1. This provider never sets it, since Cluster API never takes it back; it
// is here so that one written in v1beta1 is stored.
// +kubebuilder:validation:MinProperties=1
type HostClusterV1Beta1DeprecatedStatus struct {
	// failureReason of v1beta1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage of v1beta1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`
}

// HostCluster is the infrastructure of a Cluster that runs on Hosts.
//
// The rules stand here and not on the spec, since an update without a spec would
// slip past them there, and since templates share the spec but not the rules.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?controlPlaneEndpoint.?host.orValue(\"\") in [\"\", self.?spec.?controlPlaneEndpoint.?host.orValue(\"\")]",message="spec.controlPlaneEndpoint.host cannot change once set: the certificates and every kubeconfig name it; create a new Cluster instead"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?controlPlaneEndpoint.?port.orValue(0) in [0, self.?spec.?controlPlaneEndpoint.?port.orValue(0)]",message="spec.controlPlaneEndpoint.port cannot change once set: every kubeconfig names it; create a new Cluster instead"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?controlPlaneEndpoint.?host.orValue(\"\") in [\"\"] || oldSelf.?spec.?endpoint.?type.orValue(\"HostVIP\") in [self.?spec.?endpoint.?type.orValue(\"HostVIP\")]",message="spec.endpoint.type cannot change once spec.controlPlaneEndpoint is set: hosts are told with their bootstrap whether they hold the address; create a new Cluster instead"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostclusters,scope=Namespaced,shortName=swc,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Address of the control plane"
// +kubebuilder:printcolumn:name="Port",type="integer",JSONPath=".spec.controlPlaneEndpoint.port",description="Port of the control plane"
// +kubebuilder:printcolumn:name="Type",type="string",priority=10,JSONPath=".spec.endpoint.type",description="Who holds the address"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether provisioning is done"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Ready condition"
// +kubebuilder:printcolumn:name="Held",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='EndpointHeld')].message",description="Which host has the address"
// +kubebuilder:printcolumn:name="Reason",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired infrastructure.
	// +optional
	Spec HostClusterSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the cluster.
func (c *HostCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the cluster.
func (c *HostCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// HostClusterList is a list of HostClusters.
//
// +kubebuilder:object:root=true
type HostClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostCluster `json:"items"`
}

// HostClusterTemplateSpec holds the template.
type HostClusterTemplateSpec struct {
	// template is what a HostCluster is made from.
	// +required
	// +kubebuilder:default={}
	Template HostClusterTemplateResource `json:"template"`
}

// HostClusterTemplateResource is what a HostCluster is made from.
type HostClusterTemplateResource struct {
	// metadata is copied to the HostCluster.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is copied to the HostCluster, and always there: patches of ClusterClasses add
	// fields to it.
	// +optional
	// +kubebuilder:default={}
	Spec HostClusterSpec `json:"spec"`
}

// HostClusterTemplate is used by ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostclustertemplates,scope=Namespaced,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec HostClusterTemplateSpec `json:"spec"`
}

// HostClusterTemplateList is a list of HostClusterTemplates.
//
// +kubebuilder:object:root=true
type HostClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostClusterTemplate `json:"items"`
}
