package v1beta2

// Reasons of the condition HostClaimed of a HostMachine, besides
// WaitingForClusterInfrastructureReady and WaitingForBootstrapData of Cluster API. A machine
// that asks for one host by spec.adopt has those of that Host's Available, too.
const (
	// HostMachineClaimedReason means that the machine has its host, which the message names.
	HostMachineClaimedReason = "Claimed"
	// HostMachineClaimingReason means that the claim is being made.
	HostMachineClaimingReason = "Claiming"
	// HostMachineReleasedReason means that the machine is being deleted and has released its host.
	HostMachineReleasedReason = "Released"
	// HostMachineWaitingForClusterReason means that Cluster API has not set the owner and the
	// label of the Cluster yet. Wait; if that lasts, look whether core Cluster API runs.
	HostMachineWaitingForClusterReason = "WaitingForCluster"
	// HostMachineWaitingForOwnerReason means that no Machine or MachinePool owns the machine.
	// Create machines by one of these, or by a MachineDeployment, and not by hand.
	HostMachineWaitingForOwnerReason = "WaitingForOwner"
	// HostMachineOwnerDeletingReason means that the Cluster of the machine, or an owner, is
	// being deleted, so that the machine claims no host; the message names it. If that lasts,
	// see what holds the deletion up: a lifecycle policy, a hook, a drain or a finalizer.
	HostMachineOwnerDeletingReason = "OwnerDeleting"
	// HostMachineWaitingForHookReason means that an extension blocks the claim. The condition
	// ClaimHooksPassed says which, and why.
	HostMachineWaitingForHookReason = "WaitingForHook"
	// HostMachineNoHostFitsReason means that no host fits; the message has each host with its
	// reason. Enroll or free a host that fits.
	HostMachineNoHostFitsReason = "NoHostFits"
	// HostMachineControlPlaneFirstReason means that hosts fit, and that the control plane of the
	// Cluster needs them. Enroll more hosts; annotation
	// infrastructure.slipway.dev/control-plane-first: "false" on the Cluster has workers claim
	// them all the same.
	HostMachineControlPlaneFirstReason = "ControlPlaneFirst"
	// HostMachineHostLostReason means that the host was deleted or claimed by another machine; a
	// machine never gets a second host. Delete the Machine to replace it.
	HostMachineHostLostReason = "HostLost"
)

// Reasons of the condition HostClaimed of a HostMachine with spec.adopt.
const (
	// HostMachineHostNotFoundReason means that the Host to adopt does not exist. Enroll the
	// agent on it.
	HostMachineHostNotFoundReason = "HostNotFound"
	// HostMachineHostTakenReason means that another machine claimed the host to adopt.
	HostMachineHostTakenReason = "HostTaken"
	// HostMachineNothingToAdoptReason means that the host is clean. Restart slipway-agent on
	// it if a node joined since the agent looked.
	HostMachineNothingToAdoptReason = "NothingToAdopt"
	// HostMachineVersionMismatchReason means that the node has another Kubernetes version than the
	// Machine. Set the version that it runs.
	HostMachineVersionMismatchReason = "VersionMismatch"
	// HostMachineWorkersOnlyReason means that the machine is of a control plane: only workers
	// are adopted. Delete the Machine.
	HostMachineWorkersOnlyReason = "WorkersOnly"
	// HostMachineNodeLeavingReason means that Cluster API has yet to delete the previous Node of
	// the host, by its name. Wait.
	HostMachineNodeLeavingReason = "NodeLeaving"
	// HostMachineWaitingForClusterCAReason means that the kubeconfig Secret of the Cluster does not
	// have its certificate authority yet. Wait for the control plane.
	HostMachineWaitingForClusterCAReason = "WaitingForClusterCA"
)

// Reasons of the condition BootstrapSucceeded of a HostMachine. While it is false, Ready has
// the same reason with Bootstrap before it.
const (
	// HostMachineBootstrapSucceededReason means that the host was bootstrapped or adopted.
	HostMachineBootstrapSucceededReason = "Succeeded"
	// HostMachinePendingReason means that the agent has not begun.
	HostMachinePendingReason = "Pending"
	// HostMachineBootstrapRunningReason means that the agent bootstraps or adopts the host;
	// the message has the step.
	HostMachineBootstrapRunningReason = "Running"
	// BootstrapFailedReason means that the bootstrap failed permanently. Delete the Machine to try
	// again on a clean host.
	BootstrapFailedReason = "Failed"
	// WaitingForMachinePoolReason means that the host is claimed and must not become a Node yet: a
	// MachinePool would delete the Node for a previous one of the host. Wait; if that lasts, look
	// at the conditions of the MachinePool.
	WaitingForMachinePoolReason = "WaitingForMachinePool"
	// WaitingForControlPlaneReason means that the host is claimed and must not initialize the
	// control plane: the message names another host of it that is claimed, and the Cluster is
	// not initialized. Wait until it is. If that host never made a control plane, delete its
	// Machine.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// HostMachineBootstrapOwnerDeletingReason means that the host is claimed and is not
	// bootstrapped, since the Cluster of the machine, or an owner, is being deleted; the
	// message names it. If that lasts, see what holds the deletion up.
	HostMachineBootstrapOwnerDeletingReason = HostMachineOwnerDeletingReason
)

// Reasons of the condition Ready of a HostMachine. Before it has a host they are those of
// HostClaimed; while it is being deleted, Deleting of Cluster API.
const (
	// HostMachineProvisionedReason means that nothing is known to be wrong with the machine.
	HostMachineProvisionedReason = "Provisioned"
	// HostMachineReadyBootstrapPendingReason means that the agent has not begun.
	HostMachineReadyBootstrapPendingReason = "BootstrapPending"
	// HostMachineReadyBootstrapRunningReason means that the agent bootstraps or adopts the
	// host.
	HostMachineReadyBootstrapRunningReason = "BootstrapRunning"
	// HostMachineReadyBootstrapFailedReason means that the bootstrap failed permanently. Delete the
	// Machine to try again on a clean host.
	HostMachineReadyBootstrapFailedReason = "BootstrapFailed"
	// HostMachineReadyWaitingForMachinePoolReason means that the host must not become a Node
	// yet, see WaitingForMachinePoolReason.
	HostMachineReadyWaitingForMachinePoolReason = "BootstrapWaitingForMachinePool"
	// HostMachineReadyWaitingForControlPlaneReason means that the host must not initialize the
	// control plane, see WaitingForControlPlaneReason.
	HostMachineReadyWaitingForControlPlaneReason = "BootstrapWaitingForControlPlane"
	// HostMachineReadyOwnerDeletingReason means that the host is claimed and is not
	// bootstrapped, see HostMachineBootstrapOwnerDeletingReason.
	HostMachineReadyOwnerDeletingReason = "BootstrapOwnerDeleting"
	// HostMachineAgentNotConnectedReason means that the heartbeat of the host's agent is not fresh.
	// Check power and network of the host, and that slipway-agent runs.
	HostMachineAgentNotConnectedReason = HostAgentNotConnectedReason
	// NodeDeletedReason means that the Node was deleted while the machine exists. A worker is
	// rebooted for it; otherwise the message says what to do.
	NodeDeletedReason = "NodeDeleted"
	// NodeNotReadyReason means that the Node has not been ready for five minutes while others
	// of its cluster are, or its kubelet has been silent as long. The condition NodeReady of
	// the Machine says why.
	NodeNotReadyReason = "NodeNotReady"
)

// Reasons of the condition UpToDate of a HostMachine, besides HostMachinePendingReason.
const (
	// HostMachineUpToDateReason means that the host runs the requested version.
	HostMachineUpToDateReason = "UpToDate"
	// HostMachineVersionNotOfferedReason means that the host does not have the requested version.
	// Load its host bundle with slipway bundle load if the agent installs versions, or install it
	// on the host with slipway-agent software install.
	HostMachineVersionNotOfferedReason = "VersionNotOffered"
	// HostMachineUpgradePendingReason means that the host is to be upgraded.
	HostMachineUpgradePendingReason = "UpgradePending"
	// HostMachineUpgradingReason means that the agent upgrades the node in place.
	HostMachineUpgradingReason = HostUpgradingReason
	// UpgradeFailedReason means that the upgrade failed permanently; it is a reason of Ready of the
	// Host, too. Repair the host and increment spec.reboots, or delete the Machine.
	UpgradeFailedReason = "UpgradeFailed"
)

// Reasons of the condition Rebooted of a HostMachine.
const (
	// HostMachineRebootedReason means that the last requested reboot is done.
	HostMachineRebootedReason = "Rebooted"
	// HostMachineRebootPendingReason means that the host is to be rebooted.
	HostMachineRebootPendingReason = "RebootPending"
	// HostMachineRebootingReason means that the host is being rebooted.
	HostMachineRebootingReason = HostRebootingReason
	// HostMachineEvictionsRefusedReason means that pods hold up the drain before the reboot; the
	// message names them, since when, and what ends it.
	HostMachineEvictionsRefusedReason = "EvictionsRefused"
	// HostMachineRebootFailedReason means that the host did not recover. Repair what the message
	// says, then increment spec.reboots.
	HostMachineRebootFailedReason = HostRebootFailedReason
)

// HostMachineEvacuatingReason of the condition Evacuating of a HostMachine means that
// spec.evacuate of its Host is set. A pool replaces the machine; of any other, delete the
// Machine.
const HostMachineEvacuatingReason = HostEvacuateReason
