package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostSpec is the durable truth about a host: its identity, who has claimed it,
// and what its agent is asked to do. Claims live here, never in status, because
// `clusterctl move` drops status and changes UIDs.
type HostSpec struct {
	// hostID is the identity the agent made on its first start: the hash of its
	// public key. It is set at enrollment and never changes; a second machine
	// with another key under the same name is refused.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	HostID string `json:"hostID,omitempty"`

	// approval says whether the host may be claimed. Enrollment sets it, as the
	// HostApprovalPolicy of the namespace asks; after that it takes the verb approve on
	// hosts, which agents never have. A host without it, as an earlier version enrolled
	// it, counts as approved. A claim that exists is not touched.
	// +optional
	Approval HostApproval `json:"approval,omitempty"`

	// unschedulable keeps the host from being claimed. A claim that exists is
	// not touched.
	// +optional
	Unschedulable *bool `json:"unschedulable,omitempty"`

	// evacuate empties the host for maintenance: nobody may claim it, and a pool
	// replaces its machine on the host as in a rollout, within the pool's
	// spec.strategy.maxSurge and spec.strategy.maxUnavailable and never before another
	// host is free. The host is then reset as always. Machines of no pool are left
	// alone: delete their Machine.
	// +optional
	Evacuate *bool `json:"evacuate,omitempty"`

	// failureDomain is the zone the host stands in, for example a rack.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// assignedNamespace takes a free host to another namespace of this management
	// cluster: nobody may claim it here any more, and its agent goes over to the Host of
	// the same name and hostID there as soon as that exists. This Host then stays without
	// an agent, until it is deleted. `slipway host assign` does all of it. To write it
	// takes the verb order on hosts, as it does to make the other Host. The Host's own
	// namespace means nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	AssignedNamespace string `json:"assignedNamespace,omitempty"`

	// resetPolicy says how a released host is cleaned. A claim's own policy
	// wins over it.
	// +optional
	ResetPolicy ResetPolicy `json:"resetPolicy,omitempty"`

	// claimGeneration counts the claims this host has had. It only grows; the
	// agent refuses an operation of an older generation (fencing).
	// +optional
	// +kubebuilder:validation:Minimum=0
	ClaimGeneration int64 `json:"claimGeneration,omitempty"`

	// clearedGeneration is the claimGeneration an operator declared clean by hand
	// (ClearQuarantineAnnotation). It stands in for the agent's proof, and lives
	// in spec because a proof in status is lost on a move. It stays when the host is
	// claimed, for an agent that was away when it was written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ClearedGeneration *int64 `json:"clearedGeneration,omitempty"`

	// claim names the one HostMachine the host belongs to. A host is free when
	// it is unset. It is written with the resourceVersion of a live read, so two
	// managers never both win.
	// +optional
	Claim *HostClaim `json:"claim,omitempty"`

	// desired is what the agent is asked to do for the claim. It is unset until
	// the HostMachine has recorded which host it holds. Without a claim it is a reset that
	// an operator ordered (`slipway host reset`), and is unset once the host is proved clean.
	// +optional
	Desired *HostDesired `json:"desired,omitempty"`

	// agent is the version of slipway-agent that the host is asked to run. The rollout of
	// an AgentRelease sets it, on hosts whose agent updates itself. To write it takes the
	// verb order on hosts.
	// +optional
	Agent *HostAgentSpec `json:"agent,omitempty"`
}

// HostApproval says whether a host may be claimed.
// +kubebuilder:validation:Enum=Pending;Approved;Denied
type HostApproval string

const (
	// HostApprovalPending is a host that nobody has approved yet. A HostApprovalPolicy
	// that comes to fit it approves it.
	HostApprovalPending HostApproval = "Pending"
	// HostApprovalApproved is a host that may be claimed. Only a person takes that back.
	HostApprovalApproved HostApproval = "Approved"
	// HostApprovalDenied is a host that somebody refused. No policy approves it.
	HostApprovalDenied HostApproval = "Denied"
)

// ResetPolicy says how a released host is cleaned before its next claim.
// +kubebuilder:validation:Enum=Kubeadm;Full;Manual
type ResetPolicy string

const (
	// ResetPolicyKubeadm runs `kubeadm reset`, removes what it leaves behind and
	// proves that nothing is left. It is the default.
	ResetPolicyKubeadm ResetPolicy = "Kubeadm"

	// ResetPolicyFull does what Kubeadm does and also removes, with proof, what
	// workloads may have left: the container images that came since the bootstrap
	// began, and the logs of pods. Images that were on the host before stay.
	ResetPolicyFull ResetPolicy = "Full"

	// ResetPolicyManual stops the kubelet and leaves the rest to the operator,
	// who lifts the quarantine with the annotation ClearQuarantineAnnotation.
	ResetPolicyManual ResetPolicy = "Manual"
)

// HostClaim ties a host to a HostMachine of its own namespace. It refers by name
// and a random ID, never by UID, since UIDs change in `clusterctl move`.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a claim cannot pass from one machine to another: it is cleared first, on proof of a clean reset"
type HostClaim struct {
	// machineName is the name of the HostMachine that holds the claim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MachineName string `json:"machineName,omitempty"`

	// clusterName is the name of the Cluster the machine belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// claimID is the random ID the HostMachine recorded as its intent before it
	// took the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// adopt is true for a claim on a host that is a node already. Until the agent
	// has taken the node over, the end of the claim leaves the host as it is: it is
	// never reset.
	// +optional
	Adopt *bool `json:"adopt,omitempty"`

	// controlPlane is true for a machine of the cluster's control plane.
	// +optional
	ControlPlane *bool `json:"controlPlane,omitempty"`
}

// HostPhase is the one-word summary of a host.
// +kubebuilder:validation:Enum=Enrolling;Available;Claimed;Bootstrapping;Adopting;Running;Upgrading;Rebooting;Resetting;Quarantined;Failed
type HostPhase string

const (
	// HostPhaseEnrolling means that no agent has reported for the host yet, that it
	// still looks whether a host that never was claimed is clean, or that the host is
	// not approved.
	HostPhaseEnrolling HostPhase = "Enrolling"
	// HostPhaseAvailable means that the host is clean and can be claimed.
	HostPhaseAvailable HostPhase = "Available"
	// HostPhaseClaimed means that the agent has not picked up its operation yet.
	HostPhaseClaimed HostPhase = "Claimed"
	// HostPhaseBootstrapping means that the bootstrap data is being executed.
	HostPhaseBootstrapping HostPhase = "Bootstrapping"
	// HostPhaseAdopting means that the node on the host is being taken over.
	HostPhaseAdopting HostPhase = "Adopting"
	// HostPhaseRunning means that the last operation succeeded: the bootstrap, the
	// adoption, an upgrade or a reboot.
	HostPhaseRunning HostPhase = "Running"
	// HostPhaseUpgrading means that the host changes to another Kubernetes version.
	HostPhaseUpgrading HostPhase = "Upgrading"
	// HostPhaseRebooting means that the host was asked to reboot.
	HostPhaseRebooting HostPhase = "Rebooting"
	// HostPhaseResetting means that the host is being cleaned.
	HostPhaseResetting HostPhase = "Resetting"
	// HostPhaseQuarantined means that the host could not prove to be clean; it
	// is not claimable until an operator acts.
	HostPhaseQuarantined HostPhase = "Quarantined"
	// HostPhaseFailed means that the bootstrap, the adoption, an upgrade or a reboot
	// failed for good.
	HostPhaseFailed HostPhase = "Failed"
)

// HostInventory is what the agent found on the host.
type HostInventory struct {
	// machineID is /etc/machine-id. Two hosts with one machineID are clones.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MachineID string `json:"machineID,omitempty"`
	// operatingSystem, for example "Debian GNU/Linux 12 (bookworm)".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	OperatingSystem string `json:"operatingSystem,omitempty"`
	// kernelVersion, for example "6.1.0".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KernelVersion string `json:"kernelVersion,omitempty"`
	// architecture as Go names it: amd64, arm64.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Architecture string `json:"architecture,omitempty"`
	// agentVersion is the version of slipway-agent.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	AgentVersion string `json:"agentVersion,omitempty"`
	// kubernetesVersions are the Kubernetes versions installed on the host, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`
	// cgroups is the version of control groups that the host was booted with. The kubelet refuses V1 from
	// Kubernetes 1.35 on, unless its failCgroupV1 is false: a machine of such a version gets the host after all
	// others.
	// +optional
	Cgroups CgroupVersion `json:"cgroups,omitempty"`
	// hardware is what the agent found of the machine itself. The manager makes labels of
	// some of it, whose keys begin with hardware.infrastructure.slipway.dev/.
	// +optional
	Hardware HostHardware `json:"hardware,omitempty,omitzero"`
}

// CgroupVersion is a version of control groups.
// +kubebuilder:validation:Enum=V1;V2
type CgroupVersion string

const (
	// CgroupV1 means that controllers have hierarchies of their own, some or all of them.
	CgroupV1 CgroupVersion = "V1"
	// CgroupV2 means the one hierarchy.
	CgroupV2 CgroupVersion = "V2"
)

// VirtualIPState says what a host does about the control-plane address.
// +kubebuilder:validation:Enum=Held;Standby
type VirtualIPState string

const (
	// VirtualIPHeld means that the host has the address.
	VirtualIPHeld VirtualIPState = "Held"
	// VirtualIPStandby means that the host takes the address when its holder fails.
	VirtualIPStandby VirtualIPState = "Standby"
)

// VirtualIPAPIServer says whether the API server answers at the control-plane endpoint.
// +kubebuilder:validation:Enum=Answering;NotAnswering
type VirtualIPAPIServer string

const (
	// VirtualIPAPIServerAnswering means that an API server of the cluster answers.
	VirtualIPAPIServerAnswering VirtualIPAPIServer = "Answering"
	// VirtualIPAPIServerNotAnswering means that nothing answers, or something else.
	VirtualIPAPIServerNotAnswering VirtualIPAPIServer = "NotAnswering"
)

// VirtualIPStatus is the agent's report on the control-plane address of endpoint
// type HostVIP. HostCluster.status.conditions tells who holds the address.
type VirtualIPStatus struct {
	// address is the control-plane address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Address string `json:"address,omitempty"`

	// state says what the host does about it.
	// +required
	State VirtualIPState `json:"state,omitempty"`

	// port of the control-plane endpoint. It is unset if the operation that made the host a
	// node did not name one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// apiServer says whether an API server of the cluster answers at port: at address on
	// the host that holds it, and at the host's own address on any other. It is unset
	// without port, until it is known, and on hosts that do not hold the address and whose
	// API server listens at port.
	// +optional
	APIServer VirtualIPAPIServer `json:"apiServer,omitempty"`

	// term counts the holders of the address up to this report: of two hosts that
	// say Held, the one with the higher term is right, and the other was cut off.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Term int32 `json:"term,omitempty"`

	// macAddress of the network interface for the address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	MACAddress string `json:"macAddress,omitempty"`

	// duplicateMACAddress is the MAC address of another machine that answers for the
	// address; empty when none does. HostCluster.status.conditions names the machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DuplicateMACAddress string `json:"duplicateMACAddress,omitempty"`

	// message tells what stands in the way and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`
}

// HostStatus is what was last observed. It can be lost at any time and is
// rebuilt from the spec and the agent's journal.
type HostStatus struct {
	// conditions: Ready, AgentConnected, ClockSkewed, Available, DuplicateIdentity,
	// AgentSupported, AgentUpdated and Paused; ReleaseHooksPassed while an extension holds
	// a release, ReadyToMove while a move is under way, ReportAccepted while the API server
	// refuses a part of the agent's report, NodeIdentityKept while name or addresses of the
	// host are others than those of its Node, RecordKept while the agent does not know what was
	// done to the host, ConfigurationAccepted while it does not accept a part of its configuration.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is the one-word summary of the host.
	// +optional
	Phase HostPhase `json:"phase,omitempty"`

	// inventory is what the agent found.
	// +optional
	Inventory HostInventory `json:"inventory,omitempty,omitzero"`

	// capacity holds cpu, memory and ephemeral-storage of the host.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// software says who brings Kubernetes versions to the host, and what it has of them.
	// +optional
	Software HostSoftware `json:"software,omitempty,omitzero"`

	// agentUpdate is the agent's report on spec.agent; unset while there is nothing to tell:
	// status.inventory.agentVersion is what runs.
	// +optional
	AgentUpdate *HostAgentUpdate `json:"agentUpdate,omitempty"`

	// addresses of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// observedOperation is the agent's report on spec.desired.
	// +optional
	ObservedOperation *ObservedOperation `json:"observedOperation,omitempty"`

	// bootID is the kernel's boot ID at the agent's last report.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// residue is what the agent found of Kubernetes on a host that has no proof to
	// be clean, for example files and processes, at most 16 entries. The agent
	// does not remove it, and adopts a node only when a HostMachine asks for that.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Residue []string `json:"residue,omitempty"`

	// cleanProof is the agent's last proof that the host is clean.
	// +optional
	CleanProof *CleanProof `json:"cleanProof,omitempty"`

	// virtualIP is what the host does about the control-plane address; unset on
	// hosts that hold no control plane of endpoint type HostVIP.
	// +optional
	VirtualIP *VirtualIPStatus `json:"virtualIP,omitempty"`

	// record is what the agent's journal has of the last claim that it acted for; unset on a
	// host that had none. It is compared with spec: after a restore, or once a Host was
	// deleted and made again, they are of different claims.
	// +optional
	Record *HostRecord `json:"record,omitempty"`

	// node is what the agent decided about the node when it bootstrapped the host; unset on
	// hosts that are no node, and on those that an earlier agent made one.
	// +optional
	Node *HostNode `json:"node,omitempty"`

	// services are the units that a node needs, kubelet and containerd, as the service manager of
	// the host says; unset on hosts that are no node.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4
	Services []HostService `json:"services,omitempty"`

	// lowDisk is the file system for images and pods of the host on which too little space is free for them;
	// unset while there is enough.
	// +optional
	LowDisk *HostLowDisk `json:"lowDisk,omitempty"`

	// rebootRequired says why the host should be rebooted, by its operating system; unset while it need not be.
	// +optional
	RebootRequired *HostRebootRequired `json:"rebootRequired,omitempty"`

	// endpointFailure says why the agent does not reach the API server at the control-plane endpoint of its
	// cluster; unset while it does, and on hosts that are no node.
	// +optional
	EndpointFailure *HostEndpointFailure `json:"endpointFailure,omitempty"`

	// kubeletCertificateExpires is when the client certificate of the kubelet ends, or ended; unset while the
	// kubelet renews it in time, and on hosts that are no node.
	// +optional
	KubeletCertificateExpires *metav1.Time `json:"kubeletCertificateExpires,omitempty"`

	// configurationErrors are the entries of its configuration that the agent does not accept. It
	// works without them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	ConfigurationErrors []string `json:"configurationErrors,omitempty"`

	// omitted lists the fields of which the agent left out values, because the API takes
	// fewer or others.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Omitted []HostOmission `json:"omitted,omitempty"`
}

// HostRecordState says what the last claim that the agent acted for left on its host.
// +kubebuilder:validation:Enum=Clean;Node;Remains
type HostRecordState string

const (
	// HostRecordClean is a host on which nothing of a claim is on record.
	HostRecordClean HostRecordState = "Clean"
	// HostRecordNode is a host that is the node of the claim, which no reset was requested of.
	HostRecordNode HostRecordState = "Node"
	// HostRecordRemains is a host that is not reset since the claim.
	HostRecordRemains HostRecordState = "Remains"
)

// HostRecord is what the agent's journal has of the last claim that it acted for.
type HostRecord struct {
	// claimID of that claim; unset when it is not known.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// claimGeneration is the newest one that the agent has acted for. It refuses operations of
	// an older one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ClaimGeneration *int64 `json:"claimGeneration,omitempty"`

	// state says what is left of the claim on the host.
	// +required
	State HostRecordState `json:"state,omitempty"`

	// lost says why the journal does not tell what was done to the host, for example since it is
	// damaged; unset while it tells. There is no proof that the host is clean until an operator clears it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Lost string `json:"lost,omitempty"`
}

// HostNodeAddressSource says where the address of a node is from.
// +kubebuilder:validation:Enum=NodeIP;NodeIPNetworks;NodeIPInterface;DefaultRoute;OnlyInterface
type HostNodeAddressSource string

const (
	// HostNodeAddressConfigured is nodeIP of the agent's configuration.
	HostNodeAddressConfigured HostNodeAddressSource = "NodeIP"
	// HostNodeAddressNetwork is an address in nodeIPNetworks of the agent's configuration.
	HostNodeAddressNetwork HostNodeAddressSource = "NodeIPNetworks"
	// HostNodeAddressInterface is the first address of nodeIPInterface of the agent's configuration.
	HostNodeAddressInterface HostNodeAddressSource = "NodeIPInterface"
	// HostNodeAddressDefaultRoute is the first address of the interface of the default route.
	HostNodeAddressDefaultRoute HostNodeAddressSource = "DefaultRoute"
	// HostNodeAddressOnlyInterface is the first address of the only interface that has one, on a
	// host without a default route.
	HostNodeAddressOnlyInterface HostNodeAddressSource = "OnlyInterface"
)

// HostNode is what stays the same of a node, whatever its host is called or has as addresses later.
type HostNode struct {
	// name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// hostName is what the host was called at the end of the bootstrap.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`

	// addresses of the node, one of each family of the cluster, the primary one first. The API server
	// of a control plane is advertised at the first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Addresses []string `json:"addresses,omitempty"`

	// addressSource says by which rule the first address was chosen.
	// +optional
	AddressSource HostNodeAddressSource `json:"addressSource,omitempty"`
}

// HostService is a unit of the service manager of a host.
type HostService struct {
	// name of the unit, without .service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`

	// state is what systemctl is-active prints, such as active, activating or failed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`

	// since is when the agent first saw that the unit is not active, by the clock of the host; unset
	// while it is active.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// HostLowDisk is a file system of a host on which little space is free.
type HostLowDisk struct {
	// path of the directory that needs the space.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path,omitempty"`

	// freeGiB are free there for others than root, rounded down.
	// +required
	// +kubebuilder:validation:Minimum=0
	FreeGiB *int32 `json:"freeGiB,omitempty"`

	// neededGiB must be free for images and pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	NeededGiB int32 `json:"neededGiB,omitempty"`

	// since is when the agent first saw that, by the clock of the host.
	// +required
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// HostRebootRequired is what takes effect with the next boot of a host.
type HostRebootRequired struct {
	// kernelVersion is the release of a kernel that was installed since the boot and is newer than the running one,
	// inventory.kernelVersion; unset without one.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KernelVersion string `json:"kernelVersion,omitempty"`

	// packages that were updated, sorted, where the operating system names them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Packages []string `json:"packages,omitempty"`

	// since is when the reboot was first asked for, as far as the agent knows, by the clock of the host.
	// +required
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// HostEndpointFailure says why a host does not reach the control-plane endpoint of its cluster.
type HostEndpointFailure struct {
	// server is the URL of the endpoint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Server string `json:"server,omitempty"`

	// message is what a request to it failed with.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// since is when the agent first saw that, by the clock of the host.
	// +required
	Since metav1.Time `json:"since,omitempty,omitzero"`
}

// HostOmission is a field of the status of a Host of which the agent left out values.
type HostOmission struct {
	// field of the status, for example addresses.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Field string `json:"field,omitempty"`

	// count of the values that were left out.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
}

// HostIDField and HostMachineIDField are the selectable fields by which hosts with
// one identity are found.
const (
	HostIDField        = "spec.hostID"
	HostMachineIDField = "status.inventory.machineID"
)

// HostClaimIDField is the selectable field by which the host of a claim is
// found without reading every host.
const HostClaimIDField = "spec.claim.claimID"

// Host is a Linux machine that runs slipway-agent.
//
// The rules stand here and not on the spec, since an update without a spec would
// slip past them there.
//
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?hostID.orValue(\"\") in [\"\", self.?spec.?hostID.orValue(\"\")]",message="spec.hostID cannot change: delete the Host and enroll the machine again"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?claimGeneration.orValue(0) <= self.?spec.?claimGeneration.orValue(0)",message="spec.claimGeneration only grows: agents refuse operations of an earlier claim"
// +kubebuilder:validation:XValidation:rule="oldSelf.?spec.?approval.orValue(\"\") in [\"\", \"Approved\"] || self.?spec.?approval.orValue(\"\") != \"\"",message="spec.approval cannot be removed from a host that is not approved: set it to Approved or Denied"
// +kubebuilder:object:root=true
// +kubebuilder:selectablefield:JSONPath=`.spec.claim.claimID`
// +kubebuilder:selectablefield:JSONPath=`.spec.hostID`
// +kubebuilder:selectablefield:JSONPath=`.status.inventory.machineID`
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:storageversion
// +kubebuilder:resource:path=hosts,scope=Namespaced,shortName=swh,categories=cluster-api;slipway
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

	// spec is the durable truth about the host.
	// +optional
	Spec HostSpec `json:"spec,omitempty,omitzero"`
	// status is what was last observed.
	// +optional
	Status HostStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the host.
func (h *Host) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions of the host.
func (h *Host) SetConditions(c []metav1.Condition) { h.Status.Conditions = c }

// HostList is a list of Hosts.
//
// +kubebuilder:object:root=true
type HostList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	Items           []Host `json:"items"`
}
