package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FailureAction says what follows a step that failed for good.
// +kubebuilder:validation:Enum=Block;Continue
type FailureAction string

const (
	// FailureBlock ends the run as Failed: a blocking hook waits for somebody to retry
	// or skip the step.
	FailureBlock FailureAction = "Block"
	// FailureContinue records the failure and goes on with the next step.
	FailureContinue FailureAction = "Continue"
)

// Target is the cluster that a step works on.
// +kubebuilder:validation:Enum=Workload;Management
type Target string

const (
	// TargetWorkload is the cluster whose hook it is.
	TargetWorkload Target = "Workload"
	// TargetManagement is the cluster that holds the policy. Objects go into the
	// policy's namespace.
	TargetManagement Target = "Management"
)

// Step is one thing that must happen. Exactly one of its kinds is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.expression), has(self.window), has(self.approval), has(self.apply), has(self.job), has(self.webhook), has(self.wait), has(self.export)].filter(x, x).size() == 1",message="exactly one of expression, window, approval, apply, job, webhook, wait and export must be set"
type Step struct {
	// name of the step, unique in its hook.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// expression must become true.
	// +optional
	Expression *ExpressionStep `json:"expression,omitempty"`

	// window must be open.
	// +optional
	Window *WindowStep `json:"window,omitempty"`

	// approval must be given by a person.
	// +optional
	Approval *ApprovalStep `json:"approval,omitempty"`

	// apply applies manifests to the workload cluster.
	// +optional
	Apply *ApplyStep `json:"apply,omitempty"`

	// job must succeed.
	// +optional
	Job *JobStep `json:"job,omitempty"`

	// webhook calls an HTTPS endpoint.
	// +optional
	Webhook *WebhookStep `json:"webhook,omitempty"`

	// wait waits for objects of the workload cluster.
	// +optional
	Wait *WaitStep `json:"wait,omitempty"`

	// export saves objects of the workload cluster.
	// +optional
	Export *ExportStep `json:"export,omitempty"`

	// timeoutSeconds is how long the step may take, from its first attempt. A step
	// that has not ended by then has failed. Default: no limit for expression, window
	// and approval, which wait for something outside; 600 for the others.
	// +optional
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// retry says how often a failed attempt is repeated within timeoutSeconds.
	// +optional
	Retry *RetryPolicy `json:"retry,omitempty"`

	// onFailure is Block or Continue.
	// +optional
	// +kubebuilder:default=Block
	OnFailure FailureAction `json:"onFailure,omitempty"`
}

// RetryPolicy says how often and how fast failed attempts are repeated: the first
// retry after backoffSeconds, each further one after twice as long.
type RetryPolicy struct {
	// limit is how many failed attempts in a row are repeated. A Job that has failed
	// is not run again: that is what its own backoffLimit is for. A workload cluster
	// that does not answer is no failed attempt: the step is tried again until its
	// timeoutSeconds are over. Default: 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Limit *int32 `json:"limit,omitempty"`

	// backoffSeconds is the pause before the first retry. Default: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	BackoffSeconds *int32 `json:"backoffSeconds,omitempty"`

	// maxBackoffSeconds is the longest pause. Default: 300, or backoffSeconds if
	// that is more.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxBackoffSeconds *int32 `json:"maxBackoffSeconds,omitempty"`
}

// ExpressionStep is a gate in CEL.
type ExpressionStep struct {
	// expression must be true; one that cannot be evaluated is not. It is evaluated
	// again every intervalSeconds and when the Cluster changes. Variables: cluster (the
	// Cluster, with its status), request (hook, fromKubernetesVersion,
	// toKubernetesVersion, kubernetesVersion, as far as the hook has them, and
	// controlPlaneUpgrades and workersUpgrades, lists of what is yet to come, each with
	// its version), hosts and clusters (the Hosts and Clusters of the namespace). The
	// libraries of Kubernetes are there: semver, quantity, regex, lists.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`

	// message tells people why the cluster waits while the expression is false.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// intervalSeconds between evaluations. Default: 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
}

// WindowStep is a maintenance window. It must be open when the hook passes, not only
// when the step is reached: steps that come after it may outlast it, and the cluster
// then waits for the next opening.
type WindowStep struct {
	// schedule says when the window opens, in the five fields of cron: minute, hour,
	// day of month, month, day of week; or @daily, @weekly and so on.
	// They mean what they mean to cron(8): 0 and 7 are Sunday, and when neither field of
	// days begins with *, days that match either of them count. The first Saturday
	// of a month is "0 22 */100,1-7 * 6".
	// An opening at a time that clocks skip is when they jump; one at a time that they
	// show twice is at the first.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule,omitempty"`

	// durationSeconds is how long it stays open.
	// +required
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2678400
	DurationSeconds int32 `json:"durationSeconds,omitempty"`

	// timeZone is the name of a time zone of the tz database. Default: Etc/UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// ApprovalStep waits for a person. Who may approve needs the verb approve on the
// LifecyclePolicy; with `slipway approve`, or by the annotation
// lifecycle.slipway.dev/approve on the LifecycleRun. Who and when is recorded.
type ApprovalStep struct {
	// message tells what is to be approved.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// ApplyStep applies manifests to the workload cluster by server-side apply, under
// the field manager slipway-lifecycle-<policy>: Namespaces and
// CustomResourceDefinitions first. Objects with templates of other managers are a
// conflict, which fails the step and names the manager.
type ApplyStep struct {
	// sources hold the manifests, as YAML documents, in the policy's namespace. What is
	// applied is what they held when the run began: later changes fail the step, until
	// somebody has it retried.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Sources []ManifestSource `json:"sources,omitempty"`

	// force takes over fields that other managers own.
	// +optional
	Force *bool `json:"force,omitempty"`
}

// ManifestSource is a ConfigMap or a Secret with manifests.
type ManifestSource struct {
	// kind is ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind,omitempty"`

	// name of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key of its data. Default: all keys, in their order.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// JobStep runs a Job once and waits until it succeeds. Its logs are kept.
type JobStep struct {
	// target is the cluster in which the Job runs.
	// +optional
	// +kubebuilder:default=Workload
	Target Target `json:"target,omitempty"`

	// namespace in the workload cluster. Default: default. In the management cluster
	// it is the policy's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// spec is the spec of a batch/v1 Job. The environment of its containers gets
	// SLIPWAY_CLUSTER, SLIPWAY_NAMESPACE, SLIPWAY_HOOK and the versions of the request.
	// ttlSecondsAfterFinished is not allowed: the Job is removed once its result is
	// recorded.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// WebhookStep calls an HTTPS endpoint with POST, signed as Standard Webhooks has it
// (webhook-id, webhook-timestamp, webhook-signature). The webhook-id is the same for
// every attempt of a step, so the receiver can tell a repeated call. 2xx is success;
// 202, 429 and 503 mean "ask again", after Retry-After; all else is a failed attempt.
type WebhookStep struct {
	// url with the scheme https, without user, query secrets and fragment.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://`
	URL string `json:"url,omitempty"`

	// caBundle is the PEM bundle that the server's certificate is verified with.
	// Default: the roots of the system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`

	// secretName is the Secret in the policy's namespace whose key "key" signs: whsec_
	// and 24 to 64 random bytes in base64.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// WaitStep waits until objects of the workload cluster satisfy an expression.
type WaitStep struct {
	// apiVersion of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// namespace of the objects. Default: all, or none for kinds without.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the one object. Default: all that labelSelector selects.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// labelSelector selects the objects. Default: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// expression must be true, over the variable objects, the list of the objects, and
	// the variables of an expression step; for example objects.size() > 0 &&
	// objects.all(o, o.status.?readyReplicas.orValue(0) == o.spec.replicas).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression,omitempty"`

	// message tells people what the cluster waits for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// intervalSeconds between looks. Default: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
}

// ExportStep saves objects of the workload cluster as a compressed archive of YAML
// files, in Secrets that outlive the Cluster, with the label
// lifecycle.slipway.dev/archive: its parts, and last of all its index,
// <run>-<step>-<start>, without which it is not whole. Secrets are exported only when
// resources names them.
type ExportStep struct {
	// resources that are exported.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Resources []ExportResource `json:"resources,omitempty"`

	// namespace of the management cluster whose Secrets hold the archive, so that it
	// outlives the policy's namespace, too. It must be there, and whoever writes the
	// policy needs the verb create on secrets in it. clusterctl move does not take
	// archives of another namespace along. Default: the policy's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// maxBytes is the largest archive, compressed. A larger one fails the step.
	// Default: 16 MiB.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=134217728
	MaxBytes *int64 `json:"maxBytes,omitempty"`
}

// ExportResource selects objects.
type ExportResource struct {
	// apiVersion of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// namespaces of the objects. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// labelSelector selects the objects. Default: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
