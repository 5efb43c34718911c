package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/api/v1beta2"
)

// APIEndpoint is the address of a control plane. Clients of contract v1beta1 write both
// fields whether they are known or not: an empty host and port 0 mean unset.
type APIEndpoint struct {
	// host is the hostname or IP address on which the API server is serving; unset when
	// it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host,omitempty"`

	// port is the port on which the API server is serving; unset when it is 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// HostClusterSpec is the desired infrastructure of a Cluster.
type HostClusterSpec struct {
	// controlPlaneEndpoint is the address of the workload cluster's API server.
	// With endpoint type HostVIP the host is an unused IP address of the hosts'
	// network. The port is 6443 when only the host is set. Cluster.spec.controlPlaneEndpoint
	// is taken over when it is unset or empty.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// endpoint says who holds controlPlaneEndpoint.
	// +optional
	Endpoint v1beta2.EndpointSpec `json:"endpoint,omitempty,omitzero"`

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
	// neither unschedulable, evacuated nor claimed by another machine.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// FailureDomainSpec is one failure domain, by the name it has in the map.
type FailureDomainSpec struct {
	// controlPlane says whether control-plane machines may be placed in it.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`

	// attributes are free-form.
	// +optional
	Attributes map[string]string `json:"attributes,omitempty"`
}

// HostClusterStatus is what was last observed.
type HostClusterStatus struct {
	// ready is true when the infrastructure is fully provisioned. It never goes
	// back to false.
	// +optional
	Ready bool `json:"ready"`

	// failureReason is set on a problem that does not go away by retrying, as a
	// CamelCase word. Cluster API copies it to the Cluster, where it stays for good.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage tells about failureReason in words.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// failureDomains that the hosts of the namespace offer, by name.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	FailureDomains map[string]FailureDomainSpec `json:"failureDomains,omitempty"`

	// conditions: Ready and Paused. They are those of v1beta2:
	// Cluster API reads them in both forms it knows.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostCluster is the infrastructure of a Cluster that runs on Hosts.
//
// The rules are those of v1beta2: they are checked in the version of the request.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?controlPlaneEndpoint.?host.orValue(\"\") in [\"\", self.?spec.?controlPlaneEndpoint.?host.orValue(\"\")]",message="spec.controlPlaneEndpoint.host cannot change once set: the certificates and every kubeconfig name it; create a new Cluster instead"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?controlPlaneEndpoint.?port.orValue(0) in [0, self.?spec.?controlPlaneEndpoint.?port.orValue(0)]",message="spec.controlPlaneEndpoint.port cannot change once set: every kubeconfig names it; create a new Cluster instead"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?controlPlaneEndpoint.?host.orValue(\"\") in [\"\"] || oldSelf.?spec.?endpoint.?type.orValue(\"HostVIP\") in [self.?spec.?endpoint.?type.orValue(\"HostVIP\")]",message="spec.endpoint.type cannot change once spec.controlPlaneEndpoint is set: hosts are told with their bootstrap whether they hold the address; create a new Cluster instead"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostclusters,scope=Namespaced,shortName=swc,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hostclusters of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Address of the control plane"
// +kubebuilder:printcolumn:name="Port",type="integer",JSONPath=".spec.controlPlaneEndpoint.port",description="Port of the control plane"
// +kubebuilder:printcolumn:name="Type",type="string",priority=10,JSONPath=".spec.endpoint.type",description="Who holds the address"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.ready",description="Whether provisioning is done"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Ready condition"
// +kubebuilder:printcolumn:name="Held",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='EndpointHeld')].message",description="Which host has the address"
// +kubebuilder:printcolumn:name="Reason",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec HostClusterSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (o *HostCluster) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions.
func (o *HostCluster) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

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
// +kubebuilder:resource:path=hostclustertemplates,scope=Namespaced,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hostclustertemplates of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
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
