package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Placement says which hosts fit. It is shared by machines and pools.
type Placement struct {
	// hostSelector is what a host's labels must match. Every host fits when it
	// is unset.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`

	// minCapacity is what a host must have at the least of cpu, memory and
	// ephemeral-storage, compared with status.capacity of the Host: all that the machine
	// has, of which kubelet and system keep a part for themselves. Any host is large enough
	// when it is unset.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(name, name in ['cpu', 'memory', 'ephemeral-storage'])",message="only cpu, memory and ephemeral-storage are known of a host; select other hardware by spec.hostSelector"
	MinCapacity corev1.ResourceList `json:"minCapacity,omitempty"`

	// preferred raises hosts that match; the order of equal hosts is by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Preferred []PreferredHosts `json:"preferred,omitempty"`
}

// HostLabelKey is the key of a label of a Host that a kubelet may give its own Node.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?(kubernetes|k8s|x-k8s)[.]io/') || self.matches('^([^/]*[.])?(kubelet|node)[.]kubernetes[.]io/')",message="a kubelet gives its Node no such label: Cluster API syncs node-role.kubernetes.io, node-restriction.kubernetes.io and node.cluster.x-k8s.io from metadata.labels of the Machine, and topology.kubernetes.io/zone and region come from the Host by themselves; any key outside of kubernetes.io, k8s.io and x-k8s.io will do, or one of node.kubernetes.io"
type HostLabelKey string

// PreferredHosts raises the hosts that match a selector.
type PreferredHosts struct {
	// weight is added to the score of a host that matches.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight,omitempty"`

	// hostSelector is what a host's labels must match.
	// +required
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`
}

// RebootPolicy says what becomes of the pods of a host before it reboots.
// +kubebuilder:validation:Enum=Immediate;Drain
type RebootPolicy string

const (
	// RebootImmediate leaves them alone.
	RebootImmediate RebootPolicy = "Immediate"

	// RebootDrain evicts them.
	RebootDrain RebootPolicy = "Drain"
)

// HostMachineSpec is the desired machine on a host.
type HostMachineSpec struct {
	Placement `json:",inline"`

	// providerID is slipway://<namespace>/<host>/<claimID>, set by the
	// controller when a host is claimed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// version is the Kubernetes version the machine shall run, for example
	// v1.36.3. A pool sets it on its members; the version of the owning Machine
	// or MachinePool counts when it is unset. A change upgrades the host in place.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// reboots is how often the host shall have been rebooted for this machine.
	// Raising it by one reboots the host once; a pool does so to remediate.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Reboots *int32 `json:"reboots,omitempty"`

	// rebootPolicy of the reboots. Drain cordons the Node and evicts its pods first, as their
	// disruption budgets allow, and uncordons the Node once it is ready again. Immediate, the
	// default, leaves the pods alone: they start again with their Node. Raising reboots with
	// Immediate overtakes a reboot that drains.
	// +optional
	RebootPolicy RebootPolicy `json:"rebootPolicy,omitempty"`

	// spread is the failure domain a pool chose for the machine.
	// +optional
	Spread *SpreadDomain `json:"spread,omitempty"`

	// hostName pins the machine to one Host by name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`

	// adopt asks for a host that is a worker node of the cluster already, joined by
	// kubeadm without Slipway. Node and pods go on as they are; nothing of the
	// Machine's bootstrap data is run. It names the host, so nothing else may choose
	// one. It cannot be changed, and pools have no such members.
	// +optional
	Adopt Adoption `json:"adopt,omitempty,omitzero"`

	// resetPolicy says how the host is cleaned when the machine is deleted;
	// the host's own policy when unset.
	// +optional
	ResetPolicy ResetPolicy `json:"resetPolicy,omitempty"`

	// nodeLabels are the keys of labels of the Host that its Node gets, with their values, when
	// it registers. A host without one of them gives its Node none. The Node has its zone and
	// region in any case. A change counts from the next registration on.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	NodeLabels []HostLabelKey `json:"nodeLabels,omitempty"`

	// claimID is the controller's recorded intent to claim a host, written
	// before any host is touched.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`
}

// Adoption names what a machine takes over.
type Adoption struct {
	// hostName is the name of the Host, in the namespace of the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`
}

// HostReference names a Host of the same namespace.
type HostReference struct {
	// name of the Host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// HostMachineStatus is what was last observed.
// +kubebuilder:validation:MinProperties=1
type HostMachineStatus struct {
	// conditions: Ready, HostClaimed, BootstrapSucceeded, UpToDate and Paused;
	// Rebooted once a reboot was asked for, Evacuating while its host is emptied,
	// ClaimHooksPassed while an extension holds back its claim.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the contract's report that provisioning is done.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

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
	HostRef HostReference `json:"hostRef,omitempty,omitzero"`
}

// HostMachine is a Machine on a Host.
//
// The rules stand here and not on the spec, since an update without a spec would
// slip past them there.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?claimID.orValue(\"\") in [\"\", self.?spec.?claimID.orValue(\"\")]",message="spec.claimID is set by the controller and cannot change: a machine keeps its host for life"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?providerID.orValue(\"\") in [\"\", self.?spec.?providerID.orValue(\"\")]",message="spec.providerID is set by the controller and cannot change"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?adopt.?hostName.orValue(\"\") in [self.?spec.?adopt.?hostName.orValue(\"\")]",message="spec.adopt cannot change: delete the Machine and make another one"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostmachines,scope=Namespaced,shortName=swm,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".status.hostRef.name",description="Claimed host"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether provisioning is done"
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

	// spec is the desired machine.
	// +optional
	Spec HostMachineSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the machine.
func (m *HostMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the machine.
func (m *HostMachine) SetConditions(c []metav1.Condition) { m.Status.Conditions = c }

// HostMachineList is a list of HostMachines.
//
// +kubebuilder:object:root=true
type HostMachineList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostMachine `json:"items"`
}

// HostMachineTemplateSpec holds the template.
type HostMachineTemplateSpec struct {
	// template is what HostMachines are made from.
	// +required
	// +kubebuilder:default={}
	Template HostMachineTemplateResource `json:"template"`
}

// HostMachineTemplateResource is what HostMachines are made from.
type HostMachineTemplateResource struct {
	// metadata is copied to the HostMachine.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is copied to the HostMachine, and always there: patches of ClusterClasses add
	// fields to it.
	// +optional
	// +kubebuilder:default={}
	Spec HostMachineTemplateResourceSpec `json:"spec"`
}

// HostMachineTemplateResourceSpec is HostMachineSpec less what belongs to one
// machine only (providerID, claimID).
type HostMachineTemplateResourceSpec struct {
	Placement `json:",inline"`

	// nodeLabels are the keys of labels of the Host that its Node gets, with their values, when
	// it registers. A host without one of them gives its Node none. The Node has its zone and
	// region in any case. A pool replaces its machines when they change.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	NodeLabels []HostLabelKey `json:"nodeLabels,omitempty"`

	// resetPolicy says how the host is cleaned when the machine is deleted.
	// +optional
	ResetPolicy ResetPolicy `json:"resetPolicy,omitempty"`
}

// HostMachineTemplateStatus lets the cluster autoscaler scale from zero.
// +kubebuilder:validation:MinProperties=1
type HostMachineTemplateStatus struct {
	// capacity of a machine: the smallest value of each resource over the hosts
	// that fit.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo of a machine.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// HostMachineTemplate is used by MachineDeployments, control planes and
// ClusterClasses.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostmachinetemplates,scope=Namespaced,shortName=swmt,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type HostMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec holds the template.
	// +required
	Spec HostMachineTemplateSpec `json:"spec"`
	// status is what was last observed.
	// +optional
	Status HostMachineTemplateStatus `json:"status,omitempty,omitzero"`
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
