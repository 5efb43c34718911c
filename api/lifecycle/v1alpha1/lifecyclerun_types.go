package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RunRequest is what a hook's request says besides the Cluster. Fields that the hook
// does not have are empty.
type RunRequest struct {
	// fromKubernetesVersion is the version before the upgrade.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FromKubernetesVersion string `json:"fromKubernetesVersion,omitempty"`

	// toKubernetesVersion is the version that the upgrade leads to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ToKubernetesVersion string `json:"toKubernetesVersion,omitempty"`

	// kubernetesVersion is the version that an upgrade has led to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// controlPlaneUpgrades are the versions that the control plane had yet to get when
	// the run began, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ControlPlaneUpgrades []UpgradeStep `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the versions that the workers had yet to get when the run
	// began, in this order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	WorkersUpgrades []UpgradeStep `json:"workersUpgrades,omitempty"`
}

// UpgradeStep is one version on the way of an upgrade.
type UpgradeStep struct {
	// version of Kubernetes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}

// Versions are what makes a request another one: from which version, to which, and which
// was reached. What is yet to come of an upgrade is none of them, since it changes while
// the same step of it waits.
func (r *RunRequest) Versions() [3]string {
	return [3]string{r.FromKubernetesVersion, r.ToKubernetesVersion, r.KubernetesVersion}
}

// DecisionType is what a person decided.
// +kubebuilder:validation:Enum=Approve;Skip;Retry
type DecisionType string

const (
	// DecisionApprove gives the approval that a step waits for.
	DecisionApprove DecisionType = "Approve"
	// DecisionSkip ends a step without its being done.
	DecisionSkip DecisionType = "Skip"
	// DecisionRetry starts a failed step anew.
	DecisionRetry DecisionType = "Retry"
)

// DecisionTypes returns all of them.
func DecisionTypes() []DecisionType {
	return []DecisionType{DecisionApprove, DecisionSkip, DecisionRetry}
}

// Verb is what the user needs on the LifecyclePolicy.
func (t DecisionType) Verb() string { return strings.ToLower(string(t)) }

// Annotation of a LifecycleRun by which a user decides, such as ApproveAnnotation.
func (t DecisionType) Annotation() string { return GroupVersion.Group + "/" + t.Verb() }

// Decision is what a person decided about a step. The admission webhook writes it
// from an annotation, with the name of the user as the API server knows it, and lets
// nobody else write or change one.
type Decision struct {
	// type is Approve, Skip or Retry.
	// +required
	Type DecisionType `json:"type,omitempty"`

	// step that it is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Step string `json:"step,omitempty"`

	// by is the user who decided.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	By string `json:"by,omitempty"`

	// time of the decision.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"`

	// reason that the user gave.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// StepOutcome is how a step ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Skipped
type StepOutcome string

const (
	// OutcomeSucceeded is how a step ends that is done.
	OutcomeSucceeded StepOutcome = "Succeeded"
	// OutcomeFailed is how a step ends that failed for good.
	OutcomeFailed StepOutcome = "Failed"
	// OutcomeSkipped is how a step ends that was not executed: a person skipped it, the
	// policy is in mode Audit, or there is no workload cluster that it could work on.
	OutcomeSkipped StepOutcome = "Skipped"
)

// StepProgress is the durable record of a step. It is part of the spec because
// clusterctl move keeps nothing else. It is written before what it announces.
type StepProgress struct {
	// name of the step.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name,omitempty"`

	// startTime is when its first attempt began.
	// +required
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`

	// failures is how many attempts in a row failed.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// lastFailureTime is when the last attempt failed.
	// +optional
	LastFailureTime metav1.Time `json:"lastFailureTime,omitempty,omitzero"`

	// endTime is when the step ended.
	// +optional
	EndTime metav1.Time `json:"endTime,omitempty,omitzero"`

	// outcome is how it ended. Empty while it has not.
	// +optional
	Outcome StepOutcome `json:"outcome,omitempty"`

	// message tells what was done, or why it failed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// job that the step created.
	// +optional
	Job *JobReference `json:"job,omitempty"`

	// attempt counts the Retry decisions that were carried out: it is a part of the
	// names of what the step creates.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
}

// JobReference names a Job. One with a UID that is not there any more was deleted by
// somebody; the step fails instead of running it again.
type JobReference struct {
	// target is the cluster in which the Job runs.
	// +required
	Target Target `json:"target,omitempty"`

	// namespace of the Job.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the Job.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// uid of the Job, once it is known to exist.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// Pin is the content of the ConfigMaps and Secrets that an apply step refers to.
type Pin struct {
	// step whose sources they are.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Step string `json:"step,omitempty"`

	// digest of their contents, in the order of the sources: sha256:<hex>.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
}

// LifecycleRunSpec is the call of a hook that a policy answers, and what has been done.
type LifecycleRunSpec struct {
	// clusterName is the Cluster, in the same namespace. Its UID is in the owner
	// reference, which clusterctl move keeps right.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`

	// policyName is the LifecyclePolicy, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PolicyName string `json:"policyName,omitempty"`

	// policyGeneration is the generation of the policy that steps come from.
	// +required
	// +kubebuilder:validation:Minimum=1
	PolicyGeneration int64 `json:"policyGeneration,omitempty"`

	// mode is the policy's.
	// +required
	Mode PolicyMode `json:"mode,omitempty"`

	// hook that was called.
	// +required
	Hook HookName `json:"hook,omitempty"`

	// request is what the hook's request says besides the Cluster.
	// +optional
	Request RunRequest `json:"request,omitempty,omitzero"`

	// attempt counts the runs for the same hook, request and policy: an upgrade that
	// was called off and asked for again is a new attempt.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// steps of the policy. When the policy changes, steps that have not begun, wait or
	// failed are taken over from it; ended ones and a running job stay as they were.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Steps []Step `json:"steps,omitempty"`

	// pins are the contents of what steps refer to, as they were when the run began.
	// Other contents fail the step, until somebody has it retried. Written by the
	// controller only.
	// +optional
	// +listType=map
	// +listMapKey=step
	// +kubebuilder:validation:MaxItems=64
	Pins []Pin `json:"pins,omitempty"`

	// decisions of people, oldest first. Written by the admission webhook only.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Decisions []Decision `json:"decisions,omitempty"`

	// progress of the steps that have begun. Written by the controller only.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Progress []StepProgress `json:"progress,omitempty"`

	// cancelled says why the run was given up: its policy or its Cluster went away, or
	// the upgrade was called off. Written by the controller only.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Cancelled string `json:"cancelled,omitempty"`
}

// RunPhase is the state of a run in one word.
// +kubebuilder:validation:Enum=Pending;Running;Waiting;Succeeded;Failed;Cancelled
type RunPhase string

const (
	// RunPending means that the controller has not seen the run yet.
	RunPending RunPhase = "Pending"
	// RunRunning means that a step is being executed.
	RunRunning RunPhase = "Running"
	// RunWaiting means that a step waits for something outside: a window, a person, a
	// condition.
	RunWaiting RunPhase = "Waiting"
	// RunSucceeded means that all steps ended and none of them blocks.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed means that a step failed; somebody has to retry or skip it.
	RunFailed RunPhase = "Failed"
	// RunCancelled means that the run was given up.
	RunCancelled RunPhase = "Cancelled"
)

// LifecycleRunStatus is a view of the spec for people. It can be lost.
// +kubebuilder:validation:MinProperties=1
type LifecycleRunStatus struct {
	// conditions: Completed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that the status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is the state of the run in one word.
	// +optional
	Phase RunPhase `json:"phase,omitempty"`

	// step is the current one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Step string `json:"step,omitempty"`

	// message tells what the run waits for and what to do.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// report is what the last attempt of the current step found, if it did not fail.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Report string `json:"report,omitempty"`

	// waitingSince is when the current step began.
	// +optional
	WaitingSince metav1.Time `json:"waitingSince,omitempty,omitzero"`

	// nextAttemptTime is when a failed attempt is repeated.
	// +optional
	NextAttemptTime metav1.Time `json:"nextAttemptTime,omitempty,omitzero"`
}

// LifecycleRun is one call of a hook that one policy answers. It is created by the
// handler of the hook, executed by the controller, and owned by the Cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=lifecycleruns,scope=Namespaced,shortName=lcr,categories=cluster-api;slipway
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".spec.clusterName",description="Cluster"
// +kubebuilder:printcolumn:name="Hook",type="string",JSONPath=".spec.hook",description="Lifecycle hook"
// +kubebuilder:printcolumn:name="Policy",type="string",JSONPath=".spec.policyName",description="LifecyclePolicy"
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="State of the run"
// +kubebuilder:printcolumn:name="Step",type="string",JSONPath=".status.step",description="Current step"
// +kubebuilder:printcolumn:name="Since",type="date",JSONPath=".status.waitingSince",description="Time since the current step began"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.message",description="What it waits for, and what to do"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LifecycleRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the call that the policy answers, and what has been done.
	// +required
	Spec LifecycleRunSpec `json:"spec,omitempty,omitzero"`

	// status is a view of the spec for people.
	// +optional
	Status LifecycleRunStatus `json:"status,omitempty,omitzero"`
}

// Step returns a step by name; nil when the run has none of that name.
func (r *LifecycleRun) Step(name string) *Step {
	for i := range r.Spec.Steps {
		if r.Spec.Steps[i].Name == name {
			return &r.Spec.Steps[i]
		}
	}
	return nil
}

// Progress returns the record of a step; nil before its first attempt.
func (r *LifecycleRun) Progress(step string) *StepProgress {
	for i := range r.Spec.Progress {
		if r.Spec.Progress[i].Name == step {
			return &r.Spec.Progress[i]
		}
	}
	return nil
}

// Pin returns the digest of what a step refers to; empty when it is not pinned yet.
func (r *LifecycleRun) Pin(step string) string {
	for i := range r.Spec.Pins {
		if r.Spec.Pins[i].Step == step {
			return r.Spec.Pins[i].Digest
		}
	}
	return ""
}

// +kubebuilder:object:root=true

// LifecycleRunList is a list of LifecycleRuns.
type LifecycleRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LifecycleRun `json:"items"`
}
