package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostMachinePoolSpec is the desired pool of hosts.
type HostMachinePoolSpec struct {
	HostMachinePoolTemplateResourceSpec `json:",inline"`

	// providerID is slipway://<namespace>/pools/<name>, set by the controller.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// providerIDList are the provider IDs of the pool's machines, sorted. Cluster
	// API deletes the Node of an ID that leaves the list, so an ID leaves it
	// only when its host was released.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
}

// HostMachinePoolInstanceStatus is one machine of the pool.
type HostMachinePoolInstanceStatus struct {
	// instanceName is the name of the HostMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	InstanceName string `json:"instanceName,omitempty"`

	// hostName is the claimed host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`

	// addresses of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// providerID of the machine.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// version of Kubernetes the machine runs; empty until it does.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// revision the machine was made from, see status.revision.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`

	// ready is true while the machine is provisioned and its condition Ready has not
	// fallen since.
	// +optional
	Ready bool `json:"ready"`
}

// MaxInstances caps status.instances: a pool of thousands would otherwise grow
// past the size limit of an object.
const MaxInstances = 100

// HostMachinePoolRollout is what the last reconcile saw of a rollout. The progress
// deadline counts from it; it begins anew when it is lost.
type HostMachinePoolRollout struct {
	// version the pool rolls out to.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// revision the pool rolls out to.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`
	// outdatedReplicas are the machines of another version or revision, without
	// those that are being deleted.
	// +optional
	OutdatedReplicas *int32 `json:"outdatedReplicas,omitempty"`
	// availableReplicas are the machines of that version and revision that are
	// available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
	// lastProgressTime is when one of these values changed.
	// +optional
	LastProgressTime metav1.Time `json:"lastProgressTime,omitempty,omitzero"`
}

// HostMachinePoolStatus is what was last observed.
type HostMachinePoolStatus struct {
	// conditions: Ready, RollingOut, ScalingUp, ScalingDown, MachinesReady,
	// MachinesUpToDate, Remediating and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ready is true once the pool is provisioned. Core reads it whatever the
	// contract version (machinepool_controller_phases.go), so it is set together
	// with initialization.
	// +optional
	Ready bool `json:"ready"`

	// initialization is the contract's report that provisioning is done.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

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
	// bootstrap data without its token, hostSelector, minCapacity and nodeLabels. Each machine
	// keeps the revision it was made from in the label infrastructure.slipway.dev/revision.
	// It is empty until there is bootstrap data.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`

	// rollout is the progress of the rollout under way, unset when there is none.
	// +optional
	Rollout HostMachinePoolRollout `json:"rollout,omitempty,omitzero"`

	// capacity of a machine the pool would add: the smallest value of each
	// resource over the hosts that fit. The cluster autoscaler reads it to scale
	// from zero.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo of a machine the pool would add, for the cluster autoscaler.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`

	// infrastructureMachineKind is the kind behind MachinePool Machines.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InfrastructureMachineKind string `json:"infrastructureMachineKind,omitempty"`

	// instances are the first machines by name, at most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Instances []HostMachinePoolInstanceStatus `json:"instances,omitempty"`
}

// HostMachinePool is a pool of machines on Hosts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostmachinepools,scope=Namespaced,shortName=swmp,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas",description="Machines that have a host"
// +kubebuilder:printcolumn:name="ReadyReplicas",type="integer",JSONPath=".status.readyReplicas",description="Machines that are provisioned and well"
// +kubebuilder:printcolumn:name="Available",type="integer",JSONPath=".status.availableReplicas",description="Machines whose Node is ready"
// +kubebuilder:printcolumn:name="Updated",type="integer",JSONPath=".status.updatedReplicas",description="Machines of the pool's version and revision"
// +kubebuilder:printcolumn:name="RollingOut",type="string",JSONPath=".status.conditions[?(@.type=='RollingOut')].status",description="Whether machines are being replaced or upgraded"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether provisioning is done"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Ready condition"
// +kubebuilder:printcolumn:name="Reason",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Revision",type="string",priority=10,JSONPath=".status.revision",description="What machines are made from now"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachinePool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired pool.
	// +optional
	Spec HostMachinePoolSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostMachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the pool.
func (p *HostMachinePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions of the pool.
func (p *HostMachinePool) SetConditions(c []metav1.Condition) { p.Status.Conditions = c }

// HostMachinePoolList is a list of HostMachinePools.
//
// +kubebuilder:object:root=true
type HostMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostMachinePool `json:"items"`
}

// HostMachinePoolTemplateSpec holds the template.
type HostMachinePoolTemplateSpec struct {
	// template is what HostMachinePools are made from.
	// +required
	// +kubebuilder:default={}
	Template HostMachinePoolTemplateResource `json:"template"`
}

// HostMachinePoolTemplateResource is what HostMachinePools are made from.
type HostMachinePoolTemplateResource struct {
	// metadata is copied to the HostMachinePool.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is copied to the HostMachinePool, and always there: patches of ClusterClasses add
	// fields to it.
	// +optional
	// +kubebuilder:default={}
	Spec HostMachinePoolTemplateResourceSpec `json:"spec"`
}

// HostMachinePoolTemplateResourceSpec is HostMachinePoolSpec less what belongs to
// one pool only (providerID, providerIDList).
type HostMachinePoolTemplateResourceSpec struct {
	HostMachineTemplateResourceSpec `json:",inline"`

	// strategy says how machines are replaced when the version, the bootstrap data
	// or what machines are made from changes.
	// +optional
	Strategy HostMachinePoolStrategy `json:"strategy,omitempty,omitzero"`

	// spread distributes the machines over failure domains.
	// +optional
	Spread *HostMachinePoolSpread `json:"spread,omitempty"`

	// remediation says what is done about machines that a MachineHealthCheck found
	// unhealthy.
	// +optional
	Remediation HostMachinePoolRemediation `json:"remediation,omitempty,omitzero"`
}

// HostMachinePoolTemplate is used by ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostmachinepooltemplates,scope=Namespaced,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachinePoolTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec HostMachinePoolTemplateSpec `json:"spec"`
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
