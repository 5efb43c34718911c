package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyMode says whether a policy acts.
// +kubebuilder:validation:Enum=Enforce;Audit
type PolicyMode string

const (
	// ModeEnforce executes the steps and holds the cluster back until they are done.
	ModeEnforce PolicyMode = "Enforce"
	// ModeAudit only looks: gates are evaluated, applies are dry runs, nothing else is
	// executed, and the cluster is never held back. The run tells what would have been.
	ModeAudit PolicyMode = "Audit"
)

// Enforcement says which Clusters a policy holds back.
// +kubebuilder:validation:Enum=Topology;All
type Enforcement string

const (
	// EnforcementTopology holds back Clusters with a topology, at the hooks that Cluster API
	// calls for them. All others pass.
	EnforcementTopology Enforcement = "Topology"
	// EnforcementAll has admission hold back creation and deletion of Clusters without a
	// topology, too. Nothing else of them can be held back.
	EnforcementAll Enforcement = "All"
)

// LifecyclePolicySpec says what happens at the lifecycle hooks of which Clusters.
type LifecyclePolicySpec struct {
	// clusterSelector selects Clusters of the policy's namespace by their labels.
	// Default: all.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// matchCondition is a CEL expression over the variable cluster that must be true,
	// too; for example cluster.spec.topology.classRef.name == "slipway". One that
	// fails to evaluate holds the cluster back. Default: true.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	MatchCondition string `json:"matchCondition,omitempty"`

	// mode is Enforce or Audit.
	// +optional
	// +kubebuilder:default=Enforce
	Mode PolicyMode `json:"mode,omitempty"`

	// enforcement is Topology or All. With All, a Cluster without spec.topology is made
	// paused and can be unpaused when the steps of BeforeClusterCreate are done; it can be
	// deleted when those of BeforeClusterDelete are, which the annotation
	// lifecycle.slipway.dev/request-deletion of the Cluster asks for. All has an effect in
	// namespaces with the label lifecycle.slipway.dev/enforcement=All.
	// +optional
	// +kubebuilder:default=Topology
	Enforcement Enforcement `json:"enforcement,omitempty"`

	// hooks that the policy answers, each with its steps.
	// +required
	// +listType=map
	// +listMapKey=hook
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	Hooks []HookPolicy `json:"hooks,omitempty"`

	// runHistoryLimit is how many finished runs are kept for each cluster and hook.
	// The newest is always kept.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RunHistoryLimit *int32 `json:"runHistoryLimit,omitempty"`
}

// HookPolicy is what happens at one hook.
type HookPolicy struct {
	// hook is the lifecycle hook.
	// +required
	Hook HookName `json:"hook,omitempty"`

	// steps are executed one after the other, in this order. The hook passes when all
	// are done.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Steps []Step `json:"steps,omitempty"`
}

// LifecyclePolicyStatus is what was last observed.
// +kubebuilder:validation:MinProperties=1
type LifecyclePolicyStatus struct {
	// conditions: Ready, Effective.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the conditions are about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// activeRuns is how many runs of the policy are not finished.
	// +optional
	ActiveRuns *int32 `json:"activeRuns,omitempty"`
}

// LifecyclePolicy declares what must happen at the lifecycle hooks of the Clusters
// in its namespace. Each call of a hook becomes a LifecycleRun.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:resource:path=lifecyclepolicies,scope=Namespaced,shortName=lcp,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Mode",type="string",JSONPath=".spec.mode",description="Enforce or Audit"
// +kubebuilder:printcolumn:name="Hooks",type="string",JSONPath=".spec.hooks[*].hook",description="Hooks that the policy answers"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the policy can be executed"
// +kubebuilder:printcolumn:name="Active",type="integer",JSONPath=".status.activeRuns",description="Runs that are not finished"
// +kubebuilder:printcolumn:name="Message",type="string",priority=10,JSONPath=".status.conditions[?(@.type=='Ready')].message",description="Why it is not ready"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LifecyclePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says what happens at the hooks of which Clusters.
	// +required
	Spec LifecyclePolicySpec `json:"spec,omitempty,omitzero"`

	// status is what was last observed.
	// +optional
	Status LifecyclePolicyStatus `json:"status,omitempty,omitzero"`
}

// Steps returns the steps of a hook; nil when the policy does not answer it.
func (p *LifecyclePolicy) Steps(hook HookName) []Step {
	for i := range p.Spec.Hooks {
		if p.Spec.Hooks[i].Hook == hook {
			return p.Spec.Hooks[i].Steps
		}
	}
	return nil
}

// +kubebuilder:object:root=true

// LifecyclePolicyList is a list of LifecyclePolicies.
type LifecyclePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LifecyclePolicy `json:"items"`
}
