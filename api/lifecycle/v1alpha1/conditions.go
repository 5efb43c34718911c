package v1alpha1

// Annotations of a LifecycleRun with which people decide; the value is the name of
// a step, and after a colon and a space the reason. The admission webhook turns them
// into Decisions.
const (
	// ApproveAnnotation gives the approval that a step waits for. It needs the verb
	// approve on the LifecyclePolicy.
	ApproveAnnotation = "lifecycle.slipway.dev/approve"
	// SkipAnnotation ends a step without its being done. It needs the verb skip on the
	// LifecyclePolicy.
	SkipAnnotation = "lifecycle.slipway.dev/skip"
	// RetryAnnotation starts a failed step anew. It needs the verb retry on the
	// LifecyclePolicy.
	RetryAnnotation = "lifecycle.slipway.dev/retry"
)

// RequestDeletionAnnotation of a Cluster without a topology asks for what
// LifecyclePolicies of enforcement All want done before it is deleted. It needs the verb
// delete on the Cluster. Its value is a note for people; without the annotation nothing is
// asked for any more.
const RequestDeletionAnnotation = "lifecycle.slipway.dev/request-deletion"

// EnforcementLabel of a Namespace, with the value All, has the API server ask
// slipway-lifecycle about Clusters without a topology.
const EnforcementLabel = "lifecycle.slipway.dev/enforcement"

const (
	// DeletionGuardLabel marks a Namespace that has a LifecyclePolicy which may hold back the
	// deletion of Clusters. The API server asks slipway-lifecycle before it deletes such a
	// Namespace. slipway-lifecycle alone sets and removes the label; its value is empty.
	DeletionGuardLabel = "lifecycle.slipway.dev/deletion-guard"
	// DeletionGuardUnusedAnnotation is when slipway-lifecycle found that no policy of the
	// Namespace needs DeletionGuardLabel any more, in RFC 3339. The label is removed minutes
	// later.
	DeletionGuardUnusedAnnotation = "lifecycle.slipway.dev/deletion-guard-unused-since"
)

// Labels of what runs create.
const (
	// PolicyLabel names the LifecyclePolicy.
	PolicyLabel = "lifecycle.slipway.dev/policy"
	// HookLabel names the hook.
	HookLabel = "lifecycle.slipway.dev/hook"
	// RunLabel names the LifecycleRun.
	RunLabel = "lifecycle.slipway.dev/run"
	// StepLabel names the step.
	StepLabel = "lifecycle.slipway.dev/step"
	// ArchiveLabel is on the Secrets of an export; its value is the Cluster's name.
	ArchiveLabel = "lifecycle.slipway.dev/archive"
)

// Conditions of a LifecyclePolicy.
const (
	// ReadyCondition is true when every step can be executed as far as is known: the engine
	// may, and what it refers to exists.
	ReadyCondition = "Ready"
	// PolicyReadyReason: nothing is missing.
	PolicyReadyReason = "PolicyReady"
	// RightsMissingReason: the engine may not do what the steps take; the message has the
	// commands that grant it.
	RightsMissingReason = "RightsMissing"
	// ReferenceNotFoundReason: a ConfigMap or Secret is missing.
	ReferenceNotFoundReason = "ReferenceNotFound"
	// InvalidPolicyReason: the policy was stored without passing its webhook.
	InvalidPolicyReason = "InvalidPolicy"
	// PolicyConflictReason: another policy's windows never overlap this one's.
	PolicyConflictReason = "PolicyConflict"

	// EffectiveCondition is true when somebody asks about all that the policy is to hold back:
	// Cluster API calls hooks for all Clusters that it is about, or those without a topology
	// are held back by admission.
	EffectiveCondition = "Effective"
	// HooksCalledReason: none of the Clusters lacks a topology.
	HooksCalledReason = "HooksCalled"
	// ClusterWithoutTopologyReason: the Clusters in the message have no spec.topology, so
	// the policy holds nothing of them back, or nothing but creation and deletion.
	ClusterWithoutTopologyReason = "ClusterWithoutTopology"
	// EnforcementNotEnabledReason: enforcement is All, and the namespace lacks the label by
	// which the API server asks about Clusters without a topology.
	EnforcementNotEnabledReason = "EnforcementNotEnabled"
	// EnforcementUnknownReason: enforcement is All, and the engine may not read the labels of
	// the namespace.
	EnforcementUnknownReason = "EnforcementUnknown"
)

// Conditions of a LifecycleRun.
const (
	// CompletedCondition is true when all steps have ended and none blocks.
	CompletedCondition = "Completed"
	// StepRunningReason: a step is being executed.
	StepRunningReason = "StepRunning"
	// StepWaitingReason: a step waits for something outside.
	StepWaitingReason = "StepWaiting"
	// StepFailedReason: a step failed; retry or skip it.
	StepFailedReason = "StepFailed"
	// RunCompletedReason: all steps have ended.
	RunCompletedReason = "RunCompleted"
	// RunCancelledReason: the run was given up.
	RunCancelledReason = "RunCancelled"
)

// Conditions of a Cluster that this API adds.
const (
	// ClusterLifecycleReadyCondition is true while no run of the Cluster waits or has
	// failed. It can be named in spec.availabilityGates.
	ClusterLifecycleReadyCondition = "LifecycleReady"
	// ClusterLifecycleReadyReason: no run waits or has failed.
	ClusterLifecycleReadyReason = "NoRunWaits"
	// ClusterLifecycleWaitingReason: the runs in the message wait.
	ClusterLifecycleWaitingReason = "RunsWaiting"
	// ClusterLifecycleFailedReason: the runs in the message failed.
	ClusterLifecycleFailedReason = "RunsFailed"
)
