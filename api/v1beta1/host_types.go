package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/v1beta2"
)

// Host is a Linux machine that runs slipway-agent. No contract speaks of it: it is
// the same in both versions.
//
// The rules are those of v1beta2: they are checked in the version of the request.
// No field is selectable: the API server refuses a CRD whose versions select by the
// same fields but have different schemas.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?hostID.orValue(\"\") in [\"\", self.?spec.?hostID.orValue(\"\")]",message="spec.hostID cannot change: delete the Host and enroll the machine again"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?claimGeneration.orValue(0) <= self.?spec.?claimGeneration.orValue(0)",message="spec.claimGeneration only grows: agents refuse operations of an earlier claim"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?approval.orValue(\"\") in [\"\", \"Approved\"] || self.?spec.?approval.orValue(\"\") != \"\"",message="spec.approval cannot be removed from a host that is not approved: set it to Approved or Denied"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=hosts,scope=Namespaced,shortName=swh,categories=cluster-api;slipway
// +kubebuilder:deprecatedversion:warning="hosts of infrastructure.slipway.dev/v1beta1 go with contract v1beta1 of Cluster API, which ends in April 2027: use infrastructure.slipway.dev/v1beta2"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="What the host is doing"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Ready condition"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Reason of the Ready condition"
// +kubebuilder:printcolumn:name="Connected",type="string",JSONPath=".status.conditions[?(@.type=='AgentConnected')].status",description="Whether the agent's heartbeat is fresh"
// +kubebuilder:printcolumn:name="Approval",type="string",JSONPath=".spec.approval",description="Whether the host may be claimed"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".spec.claim.clusterName",description="Cluster that claimed the host"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".spec.claim.machineName",description="HostMachine that claimed the host"
// +kubebuilder:printcolumn:name="Address",type="string",JSONPath=".status.addresses[?(@.type=='InternalIP')].address",description="Internal address"
// +kubebuilder:printcolumn:name="Agent",type="string",JSONPath=".status.inventory.agentVersion",description="Version of the agent"
// +kubebuilder:printcolumn:name="Step",type="string",priority=10,JSONPath=".status.observedOperation.step",description="Step of the current operation"
// +kubebuilder:printcolumn:name="RebootRequired",type="date",priority=10,JSONPath=".status.rebootRequired.since",description="How long the operating system has asked for a reboot"
// +kubebuilder:printcolumn:name="OS",type="string",priority=10,JSONPath=".status.inventory.operatingSystem",description="Operating system"
// +kubebuilder:printcolumn:name="Arch",type="string",priority=10,JSONPath=".status.inventory.architecture",description="Architecture of the host"
// +kubebuilder:printcolumn:name="Versions",type="string",priority=10,JSONPath=".status.inventory.kubernetesVersions",description="Kubernetes versions on the host"
// +kubebuilder:printcolumn:name="Software",type="string",priority=10,JSONPath=".status.software.management",description="Who brings Kubernetes versions to the host"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since enrollment"
type Host struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec v1beta2.HostSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status v1beta2.HostStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (o *Host) GetConditions() []metav1.Condition { return o.Status.Conditions }

// SetConditions replaces the conditions.
func (o *Host) SetConditions(c []metav1.Condition) { o.Status.Conditions = c }

// HostList is a list of Hosts.
//
// +kubebuilder:object:root=true
type HostList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []Host `json:"items"`
}
