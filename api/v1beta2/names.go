package v1beta2

import (
	"strings"
	"time"
)

// Finalizers. A finalizer guards a promise about hosts: what it names must not
// vanish before the host was told to reset.
const (
	// HostMachineFinalizer keeps a HostMachine until its host is released.
	HostMachineFinalizer = "hostmachine.infrastructure.slipway.dev"
	// HostMachinePoolFinalizer keeps a HostMachinePool until its machines are gone.
	HostMachinePoolFinalizer = "hostmachinepool.infrastructure.slipway.dev"
	// HostClusterFinalizer keeps a HostCluster until its Cluster lets go of it.
	HostClusterFinalizer = "hostcluster.infrastructure.slipway.dev"
	// HostFinalizer keeps a Host that is claimed from being deleted.
	HostFinalizer = "host.infrastructure.slipway.dev"
)

// ClearQuarantineAnnotation on a Host is an operator's word that the host was
// cleaned by hand. The controller records it, lifts the quarantine and removes
// the annotation; on a host that is being reset, or whose agent has not reported, it waits.
// Its value is the claimGeneration that the word is for, or true for the present one.
const ClearQuarantineAnnotation = "infrastructure.slipway.dev/clear-quarantine"

// MaintenanceReasonAnnotation on a Host says why an operator keeps it from being claimed, by
// spec.unschedulable or spec.evacuate. It is for people: doctor shows it.
const MaintenanceReasonAnnotation = "infrastructure.slipway.dev/maintenance-reason"

// ReleaseOrphanAnnotation on a Host is an operator's request to reset a host whose
// HostMachine vanished. Its value must be the claimID, so that it can't hit a
// later claim. Without it such a host is left alone: an object that vanished is
// never a reason to reset.
const ReleaseOrphanAnnotation = "infrastructure.slipway.dev/release-orphan"

// RestoredAnnotation on a Host is an operator's word, given after a restore from a backup,
// that the management cluster which the backup is of is gone for good: the agent may come
// although nobody let it go there. Its value must be the UID of this very Host, which no
// copy has that clusterctl makes, so that the word does not travel with a move or another
// backup. A snapshot of etcd has it: so the manager removes the annotation once the agent is
// connected. To write it takes the verb order on hosts.
const RestoredAnnotation = "infrastructure.slipway.dev/restored"

// HardwareLabelPrefix begins the keys of labels on a Host that tell of its hardware. The
// manager writes them by what the agent reports, and takes those away that do not hold any
// more; no other label is made of a report. To write them takes the verb order on hosts.
const HardwareLabelPrefix = "hardware.infrastructure.slipway.dev/"

// Labels of a Host by its hardware. A value is the fact with each run of characters that
// labels cannot have turned into a dash, cut at 63.
const (
	// ArchitectureLabel is the architecture as Go names it: amd64, arm64.
	ArchitectureLabel = HardwareLabelPrefix + "architecture"
	// BootModeLabel is UEFI or BIOS.
	BootModeLabel = HardwareLabelPrefix + "boot-mode"
	// CPUVendorLabel and CPUModelLabel name the processor.
	CPUVendorLabel = HardwareLabelPrefix + "cpu-vendor"
	CPUModelLabel  = HardwareLabelPrefix + "cpu-model"
	// CPUFeatureLabelPrefix begins one label for each reported feature of the processor,
	// of value "true".
	CPUFeatureLabelPrefix = HardwareLabelPrefix + "cpu-feature-"
	// SystemVendorLabel and SystemProductLabel name the machine.
	SystemVendorLabel  = HardwareLabelPrefix + "system-vendor"
	SystemProductLabel = HardwareLabelPrefix + "system-product"
	// GPULabelPrefix begins one label for each vendor of GPUs: amd, intel or nvidia. The
	// value is how many of them the host has.
	GPULabelPrefix = HardwareLabelPrefix + "gpu-"
)

// RevisionLabel on a HostMachine is the revision of the pool it was made from
// (HostMachinePool.status.revision). It is a label since status is lost on a move.
const RevisionLabel = "infrastructure.slipway.dev/revision"

// ReplacesAnnotation on a HostMachine names the member it was made to replace. Only
// pools whose replicas are managed by others set it: it tells a replacement from a
// machine that was added.
const ReplacesAnnotation = "infrastructure.slipway.dev/replaces"

// WaitingForHostMark is the value of annotation cluster.x-k8s.io/skip-remediation on a
// Machine that MachineHealthChecks are to pass over because it waits, or has waited, for a
// host, or because its host drains and reboots. The HostMachine controller sets it and takes it off; it leaves other values alone.
const WaitingForHostMark = "infrastructure.slipway.dev/waiting-for-host"

// RebootRoundAnnotation on a Cluster is the round of reboots that `slipway cluster reboot` has begun and not ended.
// On a HostMachine it is when the last round began in which its host was asked to reboot.
const RebootRoundAnnotation = "infrastructure.slipway.dev/reboot-round"

// NodeDeletedRebootAnnotation on a HostMachine says that its host was rebooted since its
// Node was deleted; its value is spec.reboots of that operation. It is taken off once the Node
// is back. It lives in metadata because status is lost on a move.
const NodeDeletedRebootAnnotation = "infrastructure.slipway.dev/node-deleted-reboot"

// InPlaceUpdatesAnnotation of a Machine, by the metadata of the machine template of its
// owner, says what happens to a change that cannot be made in place, where the extension
// for updates in place is registered: with "Preferred", as without it, Cluster API replaces
// the Machine; with "Required" it does not, and the rollout waits.
const (
	InPlaceUpdatesAnnotation = "infrastructure.slipway.dev/in-place-updates"
	InPlaceUpdatesPreferred  = "Preferred"
	InPlaceUpdatesRequired   = "Required"
)

// ControlPlaneFirstAnnotation on a Cluster with the value "false" has its workers claim hosts
// that its control plane needs. By default as many are reserved for it as it lacks machines.
const ControlPlaneFirstAnnotation = "infrastructure.slipway.dev/control-plane-first"

// RemediationAnnotation on a HostMachine is the remediation step that was last tried
// on it. It lives in metadata because status is lost on a move. Only the pool writes
// it.
const RemediationAnnotation = "infrastructure.slipway.dev/remediation"

// HeartbeatIntervalAnnotation on the Lease of a host asks its agent to renew it no
// more often than that, a duration such as 60s. The Host controller sets it by the
// number of hosts, so that heartbeats cost the same with thousands of them.
const HeartbeatIntervalAnnotation = "infrastructure.slipway.dev/heartbeat-interval"

// HostBundlesAnnotation on the Lease of a host is the URL where the management cluster
// serves host bundles to hosts, such as https://192.0.2.10:9445; absent where it serves none.
// Without a host, as in https://:6444, it is at the address by which hosts reach the API server.
// HostBundlesCAHashAnnotation is the digest of the public key of the CA that signed that
// server's certificate, in the form that kubeadm uses (sha256:HEX); absent where that is the CA of
// the management cluster. slipway-manager writes both.
const (
	HostBundlesAnnotation       = "infrastructure.slipway.dev/host-bundles"
	HostBundlesCAHashAnnotation = "infrastructure.slipway.dev/host-bundles-ca-hash"
)

// CertificateExpirationAnnotation on the Lease of a host is when the certificate that its
// agent works with ends, in RFC 3339, as the agent says.
const CertificateExpirationAnnotation = "infrastructure.slipway.dev/certificate-expiration"

// ReportRefusedAnnotation on the Lease of a host says which fields of the agent's last report
// the API server refused, and why. It is absent while the whole report is accepted. It is on the Lease,
// as a status that is refused cannot say so.
const ReportRefusedAnnotation = "infrastructure.slipway.dev/report-refused"

// Enrollment: the identity of an agent (architecture, "Enrollment").
const (
	// AgentUserPrefix starts the user name of an agent's client certificate:
	// slipway:host:<namespace>:<name>:<first digits of spec.hostID>; see AgentUser.
	AgentUserPrefix = "slipway:host:"
	// AgentGroup is the organization of an agent's client certificate.
	AgentGroup = "slipway:hosts"
	// AgentCertificateLifetime is the longest that the manager approves a certificate of
	// AgentGroup for. Agents make a new key for each.
	AgentCertificateLifetime = 24 * time.Hour
	// EnrollmentUserPrefix starts the user name of an agent's enrollment certificate:
	// slipway:enrollment:<namespace>:<name>:<first digits of spec.hostID>; see EnrollmentUser.
	EnrollmentUserPrefix = "slipway:enrollment:"
	// EnrollmentGroup is the organization of an agent's enrollment certificate, whose key is
	// that of spec.hostID. It is good for asking for certificates, and nothing else.
	EnrollmentGroup = "slipway:enrollments"
	// BootstrapGroup in auth-extra-groups lets a bootstrap token file requests. What it
	// may ask for is up to its other groups.
	BootstrapGroup = "system:bootstrappers:slipway"
	// BootstrapGroupPrefix starts the groups in auth-extra-groups by which a bootstrap
	// token enrolls hosts: system:bootstrappers:slipway:<namespace> for any of a namespace,
	// or one of HostBootstrapGroup for each host that it is bound to.
	BootstrapGroupPrefix = BootstrapGroup + ":"
	// TokenUsesAnnotation on the Secret of a bootstrap token is how many machines it
	// enrolls, from 0 to MaxTokenUses; without it there is no limit. A machine whose Host
	// is there already, by its key, takes none: one that was moved or lost its certificate.
	TokenUsesAnnotation = "infrastructure.slipway.dev/token-uses"
	// TokenUsedByAnnotation on the same Secret is whom it has enrolled: the user names of
	// their agents, separated by spaces. The manager writes it before it admits a machine.
	TokenUsedByAnnotation = "infrastructure.slipway.dev/token-used-by"
	// MaxTokenUses is the largest TokenUsesAnnotation: the longest names of as many agents
	// are what annotations have room for.
	MaxTokenUses = 500
	// HostLabel names the host that a CertificateSigningRequest, a Lease, a Role
	// or a RoleBinding is for. Managers watch only objects that carry it.
	HostLabel = "infrastructure.slipway.dev/host"
)

// Hand-over of agents to another management cluster (docs/design/move.md).
const (
	// HandOverSecretName is the Secret in a namespace by which an operator hands its
	// hosts over. Agents of its approved hosts may read it, until it expires.
	HandOverSecretName = "slipway-hand-over"
	// HandOverSecretType is its type. No other Secret becomes a hand-over by its name.
	HandOverSecretType = "infrastructure.slipway.dev/hand-over"
	// PurposeLabel on it says what the Secret is for: HandOverPurpose.
	PurposeLabel = "infrastructure.slipway.dev/purpose"
	// HandOverPurpose is the value of PurposeLabel on a hand-over.
	HandOverPurpose = "hand-over"
	// HandOverExpirationKey is its key with the time at which it ends, as RFC 3339 writes
	// it. After that no agent may read it, nor follows it.
	HandOverExpirationKey = "expiration"
	// HandOverKubeconfigKey is its key with the bootstrap kubeconfig of the other
	// management cluster: address, CA and a bootstrap token. Empty means that the
	// agents are handed over by hand.
	HandOverKubeconfigKey = "kubeconfig"
	// HandOverSignatureKey is its key with the signature, which the manager adds.
	HandOverSignatureKey = "signature"
	// HandOverProblemAnnotation on the Secret tells why it is not signed.
	HandOverProblemAnnotation = "infrastructure.slipway.dev/hand-over-problem"
	// HandOverSignerSecretName is the Secret with the key that signs, one for each
	// namespace, made by who enrolls its hosts. Nobody but the manager needs it, and it
	// does not move.
	HandOverSignerSecretName = "slipway-hand-over-signer"
	// HandOverSignerSeedKey is its key with the seed of the Ed25519 key, 32 bytes.
	HandOverSignerSeedKey = "seed"

	// HandOverSignerAnnotation on the Lease of a host is the public key, in base64, by
	// which its agent knows what this management cluster signed.
	HandOverSignerAnnotation = "infrastructure.slipway.dev/hand-over-signer"
	// HandOverAnnotation on the Lease of a host is the revision of the hand-over that
	// its agent is asked to prepare. It is on the Lease since that does not move.
	HandOverAnnotation = "infrastructure.slipway.dev/hand-over"
	// HandOverReportAnnotation on the Lease of a host is the agent's answer: the
	// revision, then Ready, or Waiting and why.
	HandOverReportAnnotation = "infrastructure.slipway.dev/hand-over-report"
	// HandOverLabel on a CertificateSigningRequest says that an agent was handed over:
	// its Host comes with the move and is not made.
	HandOverLabel = "infrastructure.slipway.dev/hand-over"
)

// Condition types of this provider, besides Ready and Paused. Their reasons stand beside the
// kinds: host_reasons.go and others.
const (
	// ReadyToMoveCondition on a claimed Host tells what holds up `clusterctl move`. It
	// is there while its Cluster is paused or its agent is being handed over.
	ReadyToMoveCondition = "ReadyToMove"

	// AgentConnectedCondition on a Host is true while its heartbeat is fresh, by the
	// clock of the manager: a heartbeat counts from when it was seen, whatever time
	// the agent wrote into it.
	AgentConnectedCondition = "AgentConnected"
	// ClockSkewedCondition on a Host is true while its clock and the manager's are 30 s
	// apart or more; its message says how far. It is about certificates and tokens,
	// which may not bear that: whether the agent is connected does not depend on it.
	ClockSkewedCondition = "ClockSkewed"
	// EndpointHeldCondition on a HostCluster of endpoint type HostVIP is true while
	// a host has the control-plane address and the API server answers at address and
	// port; its message names the host.
	EndpointHeldCondition = "EndpointHeld"
	// AvailableCondition on a Host is true when it can be claimed.
	AvailableCondition = "Available"
	// DuplicateIdentityCondition on a Host is true when another Host has the same key,
	// or one of its namespace the same machine-id, as cloned disks have. Neither can be claimed then; a claim
	// that exists is not touched.
	DuplicateIdentityCondition = "DuplicateIdentity"
	// AgentSupportedCondition on a Host is true while its agent has a version the
	// manager works with. A host whose agent doesn't is not claimed.
	AgentSupportedCondition = "AgentSupported"
	// AgentUpdatedCondition on a Host is true while its agent runs the version of
	// spec.agent, or a newer one. There is none while spec.agent is unset.
	AgentUpdatedCondition = "AgentUpdated"
	// NodeIdentityKeptCondition on a Host is false while the host is called otherwise than when it was
	// bootstrapped, or has lost the address of its Node. The Node stays. It is missing while neither
	// is so.
	NodeIdentityKeptCondition = "NodeIdentityKept"
	// RecordKeptCondition on a Host is false while the agent does not know what was done to the host: its
	// journal is lost or damaged. A node runs on; its reset ends without a proof. It is missing otherwise.
	RecordKeptCondition = "RecordKept"
	// ConfigurationAcceptedCondition on a Host is false while its agent does not accept entries of its
	// configuration, and works without them; its message names them. It is missing otherwise.
	ConfigurationAcceptedCondition = "ConfigurationAccepted"
	// ReportAcceptedCondition on a Host is false while the API server refuses a part of the
	// agent's report; its message names the fields. It is missing while the whole report is accepted.
	ReportAcceptedCondition = "ReportAccepted"
	// HostClaimedCondition on a HostMachine is true when a host is claimed. When
	// false it says why each host was not chosen.
	HostClaimedCondition = "HostClaimed"
	// BootstrapSucceededCondition on a HostMachine mirrors the agent's report.
	BootstrapSucceededCondition = "BootstrapSucceeded"
	// UpToDateCondition on a HostMachine is true while its host runs the version
	// asked for. When false it says how far an in-place upgrade is, or why it
	// failed; the machine is not failed by that.
	UpToDateCondition = "UpToDate"
	// EvacuatingCondition on a HostMachine is true while its host is to be emptied
	// for maintenance (Host.spec.evacuate). A pool replaces such a machine.
	EvacuatingCondition = "Evacuating"
	// RebootedCondition on a HostMachine is true when the last reboot that was
	// asked for is done. It is missing while none was.
	RebootedCondition = "Rebooted"
	// ClaimHooksPassedCondition on a HostMachine tells who holds back its claim of
	// a host, and since when. It is missing while no extension was asked.
	ClaimHooksPassedCondition = "ClaimHooksPassed"
	// ReleaseHooksPassedCondition on a Host is false while an extension holds it
	// back from being claimed again; it tells who, and since when. It is missing
	// while none does.
	ReleaseHooksPassedCondition = "ReleaseHooksPassed"
)

// ProviderIDPrefix starts every providerID of this provider.
const ProviderIDPrefix = "slipway://"

// ProviderID of a machine on a host for one claim. The claim is part of it, so
// that the Node of an earlier claim of the same host is never taken for it.
func ProviderID(namespace, host, claimID string) string {
	return ProviderIDPrefix + namespace + "/" + host + "/" + claimID
}

// HostBootstrapGroup is the group of a bootstrap token that enrolls one host, by its name.
// Groups of tokens have no dots, and neither namespaces nor names of hosts colons.
func HostBootstrapGroup(namespace, host string) string {
	return BootstrapGroupPrefix + namespace + ":" + strings.ReplaceAll(host, ".", ":")
}

// agentKeyDigits of spec.hostID, 128 bits, are part of the user name of an agent. Nobody
// finds a second key for them.
const agentKeyDigits = 32

// AgentUser is the user name of the agent of a host. Its last part binds rights to the
// machine, by its key: another machine under the name of the host is another user, and a
// machine that was replaced has no right to what its successor is given.
func AgentUser(namespace, host, hostID string) string {
	return AgentUserPrefix + namespace + ":" + host + ":" + hostID[:min(len(hostID), agentKeyDigits)]
}

// EnrollmentUser is the user name by which the same agent asks for its certificates.
func EnrollmentUser(namespace, host, hostID string) string {
	return EnrollmentUserPrefix + strings.TrimPrefix(AgentUser(namespace, host, hostID), AgentUserPrefix)
}
