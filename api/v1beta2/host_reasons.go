package v1beta2

// Reasons of the conditions Ready and Available of a Host.
const (
	// HostEnrollingReason means that no agent has said yet whether the host is clean. Start
	// slipway-agent on the host if that lasts.
	HostEnrollingReason = "Enrolling"
	// HostAvailableReason means that the host can be claimed.
	HostAvailableReason = "Available"
	// HostClaimedReason means that a HostMachine claimed the host and the agent has not
	// begun its bootstrap. If that lasts, an event of the Host tells what to mend.
	HostClaimedReason = "Claimed"
	// HostBootstrappingReason means that the agent bootstraps the host; the message has the
	// step.
	HostBootstrappingReason = "Bootstrapping"
	// HostBootstrapFailedReason means that the bootstrap failed for good; the message has
	// the step. Delete the Machine to try again on a clean host.
	HostBootstrapFailedReason = "BootstrapFailed"
	// HostRunningReason means that the host is a node of its cluster.
	HostRunningReason = "Running"
	// HostUpgradingReason means that the agent upgrades the node in place.
	HostUpgradingReason = "Upgrading"
	// HostRebootingReason means that the host is being rebooted.
	HostRebootingReason = "Rebooting"
	// HostRebootFailedReason means that the host did not come back well from a reboot. Mend
	// what the message says, then raise spec.reboots of its HostMachine.
	HostRebootFailedReason = "RebootFailed"
	// HostAdoptingReason means that the agent takes over the node that runs on the host.
	HostAdoptingReason = "Adopting"
	// HostAdoptionRefusedReason means that the host has what the agent did not put there, or a
	// node that cannot be adopted. Take it off the host, or ask for its adoption by spec.adopt
	// of a HostMachine.
	HostAdoptionRefusedReason = "AdoptionRefused"
	// HostResettingReason means that the agent resets the host, or is to do so.
	HostResettingReason = "Resetting"
	// HostResetFailedReason means that the reset failed; the message has the step. The agent tries
	// again by itself, more and more slowly. Repair what the message names, or clean the host by hand
	// and confirm it: `slipway host clear-quarantine`.
	HostResetFailedReason = "ResetFailed"
	// HostNotCleanReason means that there is no proof that the host is clean; the message
	// lists what is left. Clean it by hand, then confirm that it is clean: `slipway host clear-quarantine`.
	HostNotCleanReason = "NotClean"
	// HostRecordLostReason means that the agent does not know what was done to the host: its journal is
	// lost or damaged. Look at the host; `slipway host reset` takes off what is found of a node, and
	// `slipway host clear-quarantine` confirms that the rest is clean.
	HostRecordLostReason = "RecordLost"
	// HostPreviousClaimReason means that the agent has a claim on record which the Host does not have, as after a
	// restore, or when the Host was deleted and made again. `slipway host adopt` gives the host back to its
	// Machine, `slipway host reset` resets it.
	HostPreviousClaimReason = "PreviousClaim"
	// HostManualResetReason means that the reset policy is Manual: the kubelet was stopped.
	// Clean the host by hand, then confirm that it is clean: `slipway host clear-quarantine`.
	HostManualResetReason = "ManualReset"
	// HostWaitingForHookReason means that an extension holds the host back from being
	// claimed again. The condition ReleaseHooksPassed tells who, and why.
	HostWaitingForHookReason = "WaitingForHook"
	// HostOrphanedClaimReason means that the HostMachine of the claim is gone and requested no
	// reset. The host is left alone; ReleaseOrphanAnnotation is the word to reset it.
	HostOrphanedClaimReason = "OrphanedClaim"
	// HostAgentNotConnectedReason means that the heartbeat of the agent is not fresh. Look
	// at the power and the network of the host, and whether slipway-agent runs.
	HostAgentNotConnectedReason = "AgentNotConnected"
	// HostUnschedulableReason means that spec.unschedulable is set. Unset it when the host
	// may be used.
	HostUnschedulableReason = "Unschedulable"
	// HostEvacuateReason means that spec.evacuate is set. Unset it when maintenance is done.
	HostEvacuateReason = "Evacuate"
	// HostAssignedReason means that spec.assignedNamespace gives the host to another
	// namespace. `slipway host assign` deletes this Host once its agent is there.
	HostAssignedReason = "Assigned"
	// HostDuplicateIdentityReason means that another Host has the same key or machine-id, as
	// cloned disks have. Give the clone an identity of its own, as the message says.
	HostDuplicateIdentityReason = "DuplicateIdentity"
	// HostNotApprovedReason means that the HostApprovalPolicy of the namespace asks for an
	// approval of the host: slipway host approve.
	HostNotApprovedReason = "NotApproved"
	// HostInventoryNotReportedReason means that the agent has not told architecture and
	// capacity of the host yet. If that lasts, the log of slipway-agent on the host has why.
	HostInventoryNotReportedReason = "InventoryNotReported"
	// HostApprovalDeniedReason means that somebody denied the host by spec.approval. Delete
	// the Host, or approve it after all.
	HostApprovalDeniedReason = "ApprovalDenied"
	// HostDeletingReason means that the Host is being deleted and waits until its claim is
	// released.
	HostDeletingReason = "Deleting"
)

// Reasons of the condition AgentConnected of a Host.
const (
	// HostHeartbeatFreshReason means that the agent is connected.
	HostHeartbeatFreshReason = "HeartbeatFresh"
	// HostHeartbeatStaleReason means that the agent was heard of, and not lately. Look at the
	// power and the network of the host, and whether slipway-agent runs.
	HostHeartbeatStaleReason = "HeartbeatStale"
	// HostNoHeartbeatReason means that the agent has never been heard of. Start slipway-agent
	// on the host. After a restore from a backup, annotate the Host as the message says.
	HostNoHeartbeatReason = "NoHeartbeat"
)

// Reasons of the condition AgentSupported of a Host.
const (
	// HostAgentSupportedReason means that the manager works with this version of the agent.
	HostAgentSupportedReason = "Supported"
	// HostAgentTooOldReason means that the agent is more than one minor version older than
	// the manager. Upgrade the agent.
	HostAgentTooOldReason = "AgentTooOld"
	// HostAgentTooNewReason means that the agent is newer than the manager. Upgrade the
	// manager.
	HostAgentTooNewReason = "AgentTooNew"
	// HostAgentVersionUnknownReason means that the agent has not reported its version, or one
	// of agent and manager is no release; the host can be claimed.
	HostAgentVersionUnknownReason = "Unknown"
)

// Reasons of the condition AgentUpdated of a Host, which there is while spec.agent is set.
const (
	// HostAgentUpdatedReason means that the agent runs the version of spec.agent, or a newer
	// one.
	HostAgentUpdatedReason = "Updated"
	// HostAgentUpdatingReason means that the agent fetches or tries the version. If that
	// lasts, the message has why.
	HostAgentUpdatingReason = "Updating"
	// HostAgentUpdateFailedReason means that the new agent did not report in time, and the
	// former one runs again. The log of slipway-agent on the host has why. Load a mended
	// release.
	HostAgentUpdateFailedReason = "UpdateFailed"
)

// HostIdentityUniqueReason of the condition DuplicateIdentity of a Host means that no other
// Host has its identity. While another does, the reason is HostDuplicateIdentityReason.
const HostIdentityUniqueReason = "Unique"

// Reasons of the condition ClockSkewed of a Host.
const (
	// HostClocksAgreeReason means that the clocks of host and manager are less than 30 s
	// apart.
	HostClocksAgreeReason = "ClocksAgree"
	// HostClockAheadReason means that the clock of the host is ahead of the manager's. Set it
	// from the network; if most hosts report this, the manager's is wrong.
	HostClockAheadReason = "ClockAhead"
	// HostClockBehindReason means that the clock of the host is behind the manager's. Set it
	// from the network; if most hosts report this, the manager's is wrong.
	HostClockBehindReason = "ClockBehind"
)

// Reasons of the condition NodeIdentityKept of a Host.
const (
	// HostRenamedReason means that the host has another name than when it was bootstrapped. Its
	// Node keeps its own. Set the name back, or replace the Machine, as the message says.
	HostRenamedReason = "HostRenamed"
	// HostNodeAddressMissingReason means that the host does not have the address of its Node any
	// more, so that nobody reaches its kubelet. Give the address back, or replace the Machine, as the
	// message says.
	HostNodeAddressMissingReason = "NodeAddressMissing"
)

// HostEntriesInvalidReason of the condition ConfigurationAccepted of a Host means that entries of the agent's
// configuration are wrong; the message names them. Correct /etc/slipway/agent.yaml on the host and restart
// slipway-agent.
const HostEntriesInvalidReason = "EntriesInvalid"

// HostJournalLostReason of the condition RecordKept of a Host means that the agent's journal is lost or
// damaged; the message says how. What is there of a damaged one stays on the host.
const HostJournalLostReason = "JournalLost"

// HostFieldsRefusedReason of the condition ReportAccepted of a Host means that the API server
// refused fields of the agent's report, which the Host lacks since. Bring the CRDs and the manager to
// the agent's version.
const HostFieldsRefusedReason = "FieldsRefused"

// Reasons of the condition ReadyToMove of a Host. HostAgentNotConnectedReason is one more:
// the agent is handed over when it returns, which holds up no move.
const (
	// HostReadyToMoveReason means that the agent goes to the other management cluster as soon
	// as the host is there.
	HostReadyToMoveReason = "Ready"
	// HostHandOverByHandReason means that the agent does not follow by itself. Bring it a
	// bootstrap kubeconfig of the target.
	HostHandOverByHandReason = "HandOverByHand"
	// HostOperationInProgressReason means that the agent is at work. Wait until it is done.
	HostOperationInProgressReason = "OperationInProgress"
	// HostNoHandOverReason means that nobody tells the agent where the host moves to. Make
	// Secret slipway-hand-over, as the message says.
	HostNoHandOverReason = "NoHandOver"
	// HostHandOverNotSignedReason means that the manager refuses to sign Secret
	// slipway-hand-over; the message says what is wrong with it.
	HostHandOverNotSignedReason = "HandOverNotSigned"
	// HostHandOverPendingReason means that the agent has not prepared the hand-over, or
	// cannot; the message says why.
	HostHandOverPendingReason = "HandOverPending"
)

// Reasons of the conditions ClaimHooksPassed of a HostMachine and ReleaseHooksPassed of a
// Host.
const (
	// HooksPassedReason means that all handlers agreed.
	HooksPassedReason = "Passed"
	// HooksBlockedReason means that a handler asks for more time; the message has its name
	// and what it waits for.
	HooksBlockedReason = "Blocked"
	// HooksFailedReason means that a handler could not be asked, or answered with an error.
	// Look at the extension that the message names.
	HooksFailedReason = "Failed"
)

// Reasons of the conditions Approved and Denied of an agent's CertificateSigningRequest,
// besides HostDuplicateIdentityReason.
const (
	// HostRequestApprovedReason means that the request is that of an agent.
	HostRequestApprovedReason = "SlipwayHost"
	// HostRequestInvalidReason means that the request asks for what no agent may have; the
	// message says what.
	HostRequestInvalidReason = "InvalidRequest"
	// HostRequestSubjectReason means that the subject is not the name of an agent with its
	// key.
	HostRequestSubjectReason = "InvalidSubject"
	// HostRequesterNotAllowedReason means that neither the agent of the host filed the request
	// nor a bootstrap token of its namespace.
	HostRequesterNotAllowedReason = "RequesterNotAllowed"
	// HostNotAllowedReason means that the bootstrap token is bound to other hosts. Make one
	// for this host: slipway host token.
	HostNotAllowedReason = "HostNotAllowed"
	// HostUnknownReason means that the Host of the agent does not exist any more. Enroll it
	// again with a bootstrap token.
	HostUnknownReason = "HostUnknown"
	// TokenGoneReason means that the bootstrap token was deleted. Put a fresh one on the host.
	TokenGoneReason = "TokenGone"
	// TokenMalformedReason means that the Secret of the bootstrap token says of its uses what
	// cannot be read; the message says what.
	TokenMalformedReason = "TokenMalformed"
	// TokenUsedUpReason means that the bootstrap token enrolled as many machines as it may.
	// Make one for this host.
	TokenUsedUpReason = "TokenUsedUp"
)
