package v1beta2

// Reasons of the conditions Ready and Available of a Host.
const (
	// HostEnrollingReason means that no agent has reported yet whether the host is clean. Start
	// slipway-agent on the host if that lasts.
	HostEnrollingReason = "Enrolling"
	// HostAvailableReason means that the host can be claimed.
	HostAvailableReason = "Available"
	// HostClaimedReason means that a HostMachine claimed the host and the agent has not begun its
	// bootstrap. If that lasts, an event of the Host says what to correct.
	HostClaimedReason = "Claimed"
	// HostBootstrappingReason means that the agent bootstraps the host; the message has the
	// step.
	HostBootstrappingReason = "Bootstrapping"
	// HostBootstrapFailedReason means that the bootstrap failed permanently; the message has the
	// step. Delete the Machine to try again on a clean host.
	HostBootstrapFailedReason = "BootstrapFailed"
	// HostRunningReason means that the host is a node of its cluster.
	HostRunningReason = "Running"
	// HostUpgradingReason means that the agent upgrades the node in place.
	HostUpgradingReason = "Upgrading"
	// HostRebootingReason means that the host is being rebooted.
	HostRebootingReason = "Rebooting"
	// HostRebootFailedReason means that the host did not recover from a reboot. Repair what the
	// message says, then increment spec.reboots of its HostMachine.
	HostRebootFailedReason = "RebootFailed"
	// HostAdoptingReason means that the agent takes over the node that runs on the host.
	HostAdoptingReason = "Adopting"
	// HostAdoptionRefusedReason means that the host has software that the agent did not install, or
	// a node that cannot be adopted. Remove it, or request its adoption by spec.adopt of a
	// HostMachine.
	HostAdoptionRefusedReason = "AdoptionRefused"
	// HostResettingReason means that the agent resets the host, or is to do so.
	HostResettingReason = "Resetting"
	// HostResetFailedReason means that the reset failed; the message has the step. The agent tries
	// again by itself, at growing intervals. Repair what the message names, or clean the host by
	// hand and confirm it: `slipway host clear-quarantine`.
	HostResetFailedReason = "ResetFailed"
	// HostNotCleanReason means that the host is not verified as clean; the message lists the
	// leftovers. Clean it by hand, then confirm that it is clean: `slipway host clear-quarantine`.
	HostNotCleanReason = "NotClean"
	// HostRecordLostReason means that the agent lost its journal, or it is damaged. Check the host;
	// `slipway host reset` removes what is recognized as a node's, and `slipway host
	// clear-quarantine` confirms that the rest is clean.
	HostRecordLostReason = "RecordLost"
	// HostPreviousClaimReason means that the agent has a record of a claim that the Host does not
	// have, as after a restore, or when the Host was deleted and created again. `slipway host
	// adopt` gives the host back to its Machine, `slipway host reset` resets it.
	HostPreviousClaimReason = "PreviousClaim"
	// HostManualResetReason means that the reset policy is Manual: the kubelet was stopped.
	// Clean the host by hand, then confirm that it is clean: `slipway host clear-quarantine`.
	HostManualResetReason = "ManualReset"
	// HostWaitingForHookReason means that an extension blocks the host's next claim. The condition
	// ReleaseHooksPassed says which, and why.
	HostWaitingForHookReason = "WaitingForHook"
	// HostOrphanedClaimReason means that the HostMachine of the claim is gone and requested no
	// reset. The host is not touched; ReleaseOrphanAnnotation requests its reset.
	HostOrphanedClaimReason = "OrphanedClaim"
	// HostAgentNotConnectedReason means that the heartbeat of the agent is not fresh. Check power
	// and network of the host, and that slipway-agent runs.
	HostAgentNotConnectedReason = "AgentNotConnected"
	// HostUnschedulableReason means that spec.unschedulable is set. Unset it when the host
	// may be used.
	HostUnschedulableReason = "Unschedulable"
	// HostEvacuateReason means that spec.evacuate is set. Unset it when maintenance is done.
	HostEvacuateReason = "Evacuate"
	// HostAssignedReason means that spec.assignedNamespace gives the host to another
	// namespace. `slipway host assign` deletes this Host once its agent is there.
	HostAssignedReason = "Assigned"
	// HostDuplicateIdentityReason means that another Host has the same key or machine-id, as cloned
	// disks have. Give the clone its own identity, as the message says.
	HostDuplicateIdentityReason = "DuplicateIdentity"
	// HostNotApprovedReason means that the HostApprovalPolicy of the namespace requires an approval
	// of the host: slipway host approve.
	HostNotApprovedReason = "NotApproved"
	// HostInventoryNotReportedReason means that the agent has not reported architecture and
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
	// HostHeartbeatStaleReason means that the agent has reported, but not lately. Check power and
	// network of the host, and that slipway-agent runs.
	HostHeartbeatStaleReason = "HeartbeatStale"
	// HostNoHeartbeatReason means that the agent has never reported. Start slipway-agent on the
	// host. After a restore from a backup, annotate the Host as the message says.
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
	// HostAgentUpdateFailedReason means that the new agent did not report in time, and the previous
	// one runs again. The log of slipway-agent on the host has why. Load a corrected release.
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
	// Node keeps its own. Restore the name, or replace the Machine, as the message says.
	HostRenamedReason = "HostRenamed"
	// HostNodeAddressMissingReason means that the host no longer has the address of its Node, so
	// nobody reaches its kubelet. Restore the address, or replace the Machine, as the message says.
	HostNodeAddressMissingReason = "NodeAddressMissing"
)

// HostEntriesInvalidReason of the condition ConfigurationAccepted of a Host means that entries of the agent's
// configuration are wrong; the message names them. Correct /etc/slipway/agent.yaml on the host and restart
// slipway-agent.
const HostEntriesInvalidReason = "EntriesInvalid"

// HostJournalLostReason of the condition RecordKept of a Host means that the agent's journal is
// lost or damaged; the message says how. A damaged one stays on the host.
const HostJournalLostReason = "JournalLost"

// HostFieldsRefusedReason of the condition ReportAccepted of a Host means that the API server
// refused fields of the agent's report, which the Host lacks. Upgrade the CRDs and the manager to
// the agent's version.
const HostFieldsRefusedReason = "FieldsRefused"

// Reasons of the condition ReadyToMove of a Host. HostAgentNotConnectedReason is one more: the
// agent is handed over when it returns, which blocks no move.
const (
	// HostReadyToMoveReason means that the agent goes to the other management cluster as soon
	// as the host is there.
	HostReadyToMoveReason = "Ready"
	// HostHandOverByHandReason means that the agent does not follow by itself. Give it a bootstrap
	// kubeconfig of the target.
	HostHandOverByHandReason = "HandOverByHand"
	// HostOperationInProgressReason means that the agent is at work. Wait until it is done.
	HostOperationInProgressReason = "OperationInProgress"
	// HostNoHandOverReason means that the agent does not know where the host moves. Create Secret
	// slipway-hand-over, as the message says.
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
	// HooksBlockedReason means that a handler needs more time; the message has its name and what it
	// waits for.
	HooksBlockedReason = "Blocked"
	// HooksFailedReason means that a handler could not be called, or answered with an error. Check
	// the extension in the message.
	HooksFailedReason = "Failed"
)

// Reasons of the conditions Approved and Denied of an agent's CertificateSigningRequest,
// besides HostDuplicateIdentityReason.
const (
	// HostRequestApprovedReason means that the request is that of an agent.
	HostRequestApprovedReason = "SlipwayHost"
	// HostRequestInvalidReason means that the request is for what no agent may have; the message
	// says what.
	HostRequestInvalidReason = "InvalidRequest"
	// HostRequestSubjectReason means that the subject is not the name of an agent with its
	// key.
	HostRequestSubjectReason = "InvalidSubject"
	// HostRequesterNotAllowedReason means that neither the agent of the host filed the request
	// nor a bootstrap token of its namespace.
	HostRequesterNotAllowedReason = "RequesterNotAllowed"
	// HostNotAllowedReason means that the bootstrap token is bound to other hosts. Create one for
	// this host: slipway host token.
	HostNotAllowedReason = "HostNotAllowed"
	// HostUnknownReason means that the Host of the agent no longer exists. Enroll it again with a
	// bootstrap token.
	HostUnknownReason = "HostUnknown"
	// TokenGoneReason means that the bootstrap token was deleted. Copy a new one to the host.
	TokenGoneReason = "TokenGone"
	// TokenMalformedReason means that the Secret of the bootstrap token has an invalid number of
	// uses; the message says why.
	TokenMalformedReason = "TokenMalformed"
	// TokenUsedUpReason means that the bootstrap token enrolled its number of machines. Create one
	// for this host.
	TokenUsedUpReason = "TokenUsedUp"
)
