package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostDesiredPhase is the state a host is asked to reach.
// +kubebuilder:validation:Enum=Bootstrapped;Adopted;Upgraded;Rebooted;Reset
type HostDesiredPhase string

const (
	// HostDesiredBootstrapped asks the agent to run the bootstrap data once.
	HostDesiredBootstrapped HostDesiredPhase = "Bootstrapped"

	// HostDesiredAdopted asks the agent to take over the worker node that runs on
	// the host, as it is: nothing is started, stopped or removed.
	HostDesiredAdopted HostDesiredPhase = "Adopted"

	// HostDesiredUpgraded asks the agent to bring a bootstrapped host to another
	// Kubernetes version in place.
	HostDesiredUpgraded HostDesiredPhase = "Upgraded"

	// HostDesiredRebooted asks the agent of a bootstrapped host to reboot it once.
	HostDesiredRebooted HostDesiredPhase = "Rebooted"

	// HostDesiredReset asks the agent to undo the bootstrap and prove it.
	HostDesiredReset HostDesiredPhase = "Reset"
)

// HostDesired is one operation for the agent. The same operationID is executed
// at most once to success; a restart resumes it.
type HostDesired struct {
	// phase is the state to reach.
	// +required
	Phase HostDesiredPhase `json:"phase,omitempty"`

	// operationID names the operation in the agent's journal.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	OperationID string `json:"operationID,omitempty"`

	// bootstrapSecretName is the Secret with the bootstrap data, in the host's
	// namespace. The agent may read it only while it is named here.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	BootstrapSecretName string `json:"bootstrapSecretName,omitempty"`

	// clusterCAs are the hashes of the certificate authorities of the claim's
	// cluster, "sha256:" and the hex SHA-256 of the public key, as kubeadm writes
	// them. A node is adopted only if its kubelet trusts one of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	ClusterCAs []string `json:"clusterCAs,omitempty"`

	// version is the Kubernetes version the host must run, for example v1.36.3.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// releaseDigest is spec.digest of the KubernetesRelease of version: the host bundle that
	// the agent of a host whose software is Managed installs first, unless it is there.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	ReleaseDigest string `json:"releaseDigest,omitempty"`

	// reboots is how many reboots were requested for the claim. It outlives the
	// operation, so that no reboot is requested twice.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Reboots *int32 `json:"reboots,omitempty"`

	// rebootPolicy of a reboot.
	// +optional
	RebootPolicy RebootPolicy `json:"rebootPolicy,omitempty"`

	// providerID is handed to the kubelet, so that Node and Machine meet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// nodeLabels are the labels that the kubelet gives its Node when it registers.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// virtualIP is the control-plane address the host holds (endpoint type
	// HostVIP, control-plane machines only).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	VirtualIP string `json:"virtualIP,omitempty"`

	// virtualIPPort is set together with virtualIP. It is the port of the control-plane
	// endpoint, at which the API server of the host must answer.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	VirtualIPPort int32 `json:"virtualIPPort,omitempty"`

	// initializesControlPlane is set together with virtualIP. It is true for the host that
	// makes the control plane of its cluster, which holds virtualIP before there is an API
	// server, and false for a host that joins, which holds it only while it is elected. It
	// becomes false again if another host of the control plane is claimed before the
	// bootstrap has succeeded: another try would make a second control plane.
	// +optional
	InitializesControlPlane *bool `json:"initializesControlPlane,omitempty"`

	// ipFamilies are those of the cluster's networks, the primary one first: the node gets an
	// address of each. Without them it gets one, of IPv4 if the host has one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	IPFamilies []HostIPFamily `json:"ipFamilies,omitempty"`

	// resetPolicy of a reset operation.
	// +optional
	ResetPolicy ResetPolicy `json:"resetPolicy,omitempty"`

	// clusterDeleting is true for the reset of a control-plane host whose Cluster or control plane is
	// being deleted. All members of its etcd go then, and the last ones have no quorum: the host
	// leaves without asking the others.
	// +optional
	ClusterDeleting *bool `json:"clusterDeleting,omitempty"`

	// bootstrapped is true once the agent reported that the host became a node for
	// its claim. It is recorded here because the report is in status, which is lost
	// on a move: the machine of a host that is away then must not look as if it had
	// never been provisioned.
	// +optional
	Bootstrapped *bool `json:"bootstrapped,omitempty"`
}

// HostIPFamily is a family of IP addresses.
// +kubebuilder:validation:Enum=IPv4;IPv6
type HostIPFamily string

const (
	// HostIPv4 is IPv4.
	HostIPv4 HostIPFamily = "IPv4"
	// HostIPv6 is IPv6.
	HostIPv6 HostIPFamily = "IPv6"
)

// OperationState is how far the agent has come with an operation.
// +kubebuilder:validation:Enum=Running;Succeeded;Failed
type OperationState string

const (
	// OperationRunning means that the operation is under way or will be resumed.
	OperationRunning OperationState = "Running"
	// OperationSucceeded means that every step is done.
	OperationSucceeded OperationState = "Succeeded"
	// OperationFailed means that a step failed and retrying does not help.
	OperationFailed OperationState = "Failed"
)

// ObservedOperation is the agent's report on Host.spec.desired.
type ObservedOperation struct {
	// id is the operationID the report is about.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`

	// claimID is the claim the operation was executed for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// phase is the desired phase the operation works towards.
	// +required
	Phase HostDesiredPhase `json:"phase,omitempty"`

	// state says how far it has come.
	// +required
	State OperationState `json:"state,omitempty"`

	// step is the step under way, or the one that failed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Step string `json:"step,omitempty"`

	// reason is a CamelCase word for machines, set when state is Failed or a
	// step is being retried.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message tells what happened and what to do. Of the output of bootstrap
	// commands, which may contain secrets, it has only what kubeadm says that it
	// refused, without tokens and keys.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// startTime is when the agent began.
	// +optional
	StartTime metav1.Time `json:"startTime,omitempty,omitzero"`

	// completionTime is when the state became Succeeded or Failed.
	// +optional
	CompletionTime metav1.Time `json:"completionTime,omitempty,omitzero"`

	// steps are what the agent did for the operation, the oldest first; of more than
	// 64 the last 64. A step that is tried again after others, as after a reset, is
	// there once more.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Steps []OperationStep `json:"steps,omitempty"`
}

// OperationStep is when a step of an operation was carried out, by the clock of the host.
type OperationStep struct {
	// name of the step.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// startTime is when the step began, for the first time if it was tried again.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z$`
	StartTime metav1.MicroTime `json:"startTime,omitempty,omitzero"`

	// completionTime is when it ended, well or not. A step during which the agent or the
	// host stopped has none, like the one under way.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z$`
	CompletionTime metav1.MicroTime `json:"completionTime,omitempty,omitzero"`
}

// CleanProof is the agent's statement that a reset left nothing behind. A host
// without a proof for its last claim is never claimed.
type CleanProof struct {
	// claimGeneration is the generation of the last claim the host was cleaned
	// of; 0 on a host that never had one.
	// +optional
	ClaimGeneration int64 `json:"claimGeneration"`

	// time is when the checks passed.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"`

	// bootID of the boot in which they passed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`
}
