package v1beta2

// HostMachinePoolProvisioningReason of the condition Ready of a HostMachinePool means that
// fewer machines are ready than are wanted; the message quotes the one that is furthest from
// it. Once enough are, the reason is Provisioned of Cluster API.
const HostMachinePoolProvisioningReason = "Provisioning"

// Reasons of the condition RollingOut of a HostMachinePool whose rollout is paused, besides
// those of Cluster API.
const (
	// ProgressDeadlineExceededReason means that there was no progress within
	// spec.strategy.progressDeadlineSeconds; the message says what is waited for. The rollout
	// goes on with the next machine that becomes available, or with another version or
	// revision.
	ProgressDeadlineExceededReason = "ProgressDeadlineExceeded"
	// RolloutFailedReason means that updated machines failed; the message names them. The rollout
	// continues when they are deleted or repaired, or with another version or revision.
	RolloutFailedReason = "RolloutFailed"
)
