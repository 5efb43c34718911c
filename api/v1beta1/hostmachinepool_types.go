package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/v1beta2"
)

// HostMachinePoolStatus is what was last observed. It has no failureReason: core
// panics on one (docs/contracts.md, "Terminal failures").
type HostMachinePoolStatus struct {
	// ready is true once the pool is provisioned.
	// +optional
	Ready bool `json:"ready"`

	// replicas is the number of machines that have a host.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of machines that are provisioned and whose condition
	// Ready has not fallen since.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of machines whose Node has been ready for
	// minReadySeconds, as the condition Available of their Machine says. Rollouts
	// count with it.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas is the number of machines that have the version of the
	// MachinePool and status.revision.
	// +optional
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`

	// revision stands for what a machine is made from besides its version: the
	// bootstrap data without its token, and hostSelector. Each machine keeps the
	// revision it was made from in the label infrastructure.slipway.dev/revision.
	// It is empty until there is bootstrap data.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`

	// rollout is the progress of the rollout under way, unset when there is none.
	// +optional
	Rollout v1beta2.HostMachinePoolRollout `json:"rollout,omitempty,omitzero"`

	// capacity of a machine the pool would add: the smallest value of each
	// resource over the hosts that fit. The cluster autoscaler reads it to scale
	// from zero.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo of a machine the pool would add, for the cluster autoscaler.
	// +optional
	NodeInfo v1beta2.NodeInfo `json:"nodeInfo,omitempty,omitzero"`

	// infrastructureMachineKind is the kind behind MachinePool Machines.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InfrastructureMachineKind string `json:"infrastructureMachineKind,omitempty"`

	// instances are the first machines by name, at most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Instances []v1beta2.HostMachinePoolInstanceStatus `json:"instances,omitempty"`

	// conditions: Ready, RollingOut, ScalingUp, ScalingDown, MachinesReady,
	// MachinesUpToDate, Remediating and Paused. They are those of v1beta2: Cluster
	// API reads them in both forms it knows.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostMachinePool is a pool of machines on Hosts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hostmachinepools,scope=Namespaced,shortName=swmp,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hostmachinepools of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas",description="Machines that have a host"
// +kubebuilder:printcolumn:name="ReadyReplicas",type="integer",JSONPath=".status.readyReplicas",description="Machines that are provisioned and well"
// +kubebuilder:printcolumn:name="Available",type="integer",JSONPath=".status.availableReplicas",description="Machines whose Node is ready"
// +kubebuilder:printcolumn:name="Updated",type="integer",JSONPath=".status.updatedReplicas",description="Machines of the pool's version and revision"
// +kubebuilder:printcolumn:name="RollingOut",type="string",JSONPath=".status.conditions[?(@.type=='RollingOut')].status",description="Whether machines are being replaced or upgraded"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.ready",description="Whether provisioning is done"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Ready condition"
// +kubebuilder:printcolumn:name="Reason",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Revision",type="string",priority=10,JSONPath=".status.revision",description="What machines are made from now"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachinePool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec v1beta2.HostMachinePoolSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostMachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (o *HostMachinePool) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions.
func (o *HostMachinePool) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// HostMachinePoolList is a list of HostMachinePools.
//
// +kubebuilder:object:root=true
type HostMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostMachinePool `json:"items"`
}

// HostMachinePoolTemplate is used by ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=hostmachinepooltemplates,scope=Namespaced,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hostmachinepooltemplates of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachinePoolTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec v1beta2.HostMachinePoolTemplateSpec `json:"spec"`
}

// HostMachinePoolTemplateList is a list of HostMachinePoolTemplates.
//
// +kubebuilder:object:root=true
type HostMachinePoolTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostMachinePoolTemplate `json:"items"`
}
