package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostLogUnit is a part of a host that writes a log.
// +kubebuilder:validation:Enum=Agent;Containerd;Kernel;Kubelet
type HostLogUnit string

const (
	// HostLogAgent is slipway-agent.
	HostLogAgent HostLogUnit = "Agent"
	// HostLogContainerd is containerd.
	HostLogContainerd HostLogUnit = "Containerd"
	// HostLogKernel is the kernel, since the host booted.
	HostLogKernel HostLogUnit = "Kernel"
	// HostLogKubelet is the kubelet.
	HostLogKubelet HostLogUnit = "Kubelet"
)

// Limits of a HostLogRequest.
const (
	// HostLogDefaultLines and HostLogMaxLines are how many lines of the past are read.
	HostLogDefaultLines = 200
	HostLogMaxLines     = 5000
	// HostLogMaxText is how long status.text may be, in bytes.
	HostLogMaxText = 256 << 10
	// HostLogDefaultTimeLimit and HostLogMaxTimeLimit are for how long an agent answers a
	// request, in seconds.
	HostLogDefaultTimeLimit = 60
	HostLogMaxTimeLimit     = 900
)

// HostLogRequestSpec says whose log is read. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a request cannot be changed: create another one"
type HostLogRequestSpec struct {
	// hostName is the Host, in the namespace of the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`

	// unit is the part of the host whose log is read.
	// +required
	Unit HostLogUnit `json:"unit,omitempty"`

	// requestedBy is the user who makes the request, by the name that the management cluster
	// knows (`kubectl auth whoami`); any other name is refused. An event of the Host has it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RequestedBy string `json:"requestedBy,omitempty"`

	// lines is how many lines of the past are read, the last ones. Default 200.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5000
	Lines int32 `json:"lines,omitempty"`

	// sinceSeconds excludes older lines, in seconds. Lines from before the Host was
	// created are never read: the machine may have been another tenant's. Default: no other limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	SinceSeconds int32 `json:"sinceSeconds,omitempty"`

	// follow has the agent report new lines until the time limit. Default false.
	// +optional
	Follow *bool `json:"follow,omitempty"`

	// timeLimitSeconds is for how long the agent answers, from status.grantedTime. Default 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=900
	TimeLimitSeconds int32 `json:"timeLimitSeconds,omitempty"`
}

// HostLogRequestStatus is the answer. slipway-manager writes grantedTime, and completionTime with
// message of a request that no agent answers; all else is the agent's.
type HostLogRequestStatus struct {
	// grantedTime is when slipway-manager let the agent of the host answer: it answers four
	// requests at a time.
	// +optional
	GrantedTime *metav1.Time `json:"grantedTime,omitempty"`

	// firstLine is the number of the first line in text, from 1; unset before the first answer.
	// A gap between two answers means that lines were dropped.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FirstLine int64 `json:"firstLine,omitempty"`

	// text is the lines since the answer before, the first time those of the past; each ends with a
	// newline. Likely credentials are replaced, and control characters are escaped.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Text string `json:"text,omitempty"`

	// completionTime is when the answer was complete, or given up.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message says why there is no answer, or why it ended early.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HostLogRequest requests the log of one unit of a host from its agent. The right to create
// hostlogrequests in a namespace is the right to read the logs of its hosts. The agent answers in the
// status, over its own connection; slipway-manager deletes the object five minutes later.
// `slipway host logs` creates it. Its name is that of the Host, a hyphen, and a word without one: the agent
// of a host has its right to a request by that name, which no request for another host can have.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name.startsWith(self.spec.hostName + '-') && self.metadata.name.lastIndexOf('-') == size(self.spec.hostName)",message="metadata.name must be spec.hostName, a hyphen, and a word without a hyphen"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hostlogrequests,scope=Namespaced,shortName=swlog,categories=slipway
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".spec.hostName",description="Host whose log is read"
// +kubebuilder:printcolumn:name="Unit",type="string",JSONPath=".spec.unit",description="Part of the host that writes the log"
// +kubebuilder:printcolumn:name="Requested by",type="string",JSONPath=".spec.requestedBy",description="User who made the request"
// +kubebuilder:printcolumn:name="Completed",type="date",JSONPath=".status.completionTime",description="Time since the answer was complete"
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.message",description="Why there is no answer, or why it ended early"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the request was made"
type HostLogRequest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec says whose log is read.
	// +required
	Spec HostLogRequestSpec `json:"spec,omitempty,omitzero"`
	// status is the answer.
	// +optional
	Status HostLogRequestStatus `json:"status,omitempty,omitzero"`
}

// HostLogRequestList is a list of HostLogRequests.
//
// +kubebuilder:object:root=true
type HostLogRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []HostLogRequest `json:"items"`
}

// LogRequestsAnnotation on a Host names the HostLogRequests that its agent may answer, separated by
// commas. slipway-manager writes it; it gives no right.
const LogRequestsAnnotation = "infrastructure.slipway.dev/log-requests"
