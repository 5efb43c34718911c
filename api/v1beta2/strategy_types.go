package v1beta2

import "k8s.io/apimachinery/pkg/util/intstr"

// RolloutType says how the machines of a pool come to a new version or revision.
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete;InPlace
type RolloutType string

const (
	// RolloutTypeRollingUpdate replaces machines step by step. It is the default.
	RolloutTypeRollingUpdate RolloutType = "RollingUpdate"

	// RolloutTypeOnDelete replaces a machine only when somebody deletes it.
	RolloutTypeOnDelete RolloutType = "OnDelete"

	// RolloutTypeInPlace upgrades Kubernetes on the host each machine has. Machines
	// that differ in more than the version are replaced.
	RolloutTypeInPlace RolloutType = "InPlace"
)

// DeletePolicy orders the machines of a pool that loses some, after all that
// counts more: the annotation cluster.x-k8s.io/delete-machine, an old revision,
// not running yet, not available, balance over failure domains.
// +kubebuilder:validation:Enum=Oldest;Newest;Random
type DeletePolicy string

const (
	// DeletePolicyOldest deletes the machine that was made first.
	DeletePolicyOldest DeletePolicy = "Oldest"

	// DeletePolicyNewest deletes the machine that was made last. It is the
	// default, as with ReplicaSets: it has gathered the fewest pods.
	DeletePolicyNewest DeletePolicy = "Newest"

	// DeletePolicyRandom deletes in an order that depends on neither age nor
	// hosts. It stays the same between two reconciles.
	DeletePolicyRandom DeletePolicy = "Random"
)

// NoSpareHostPolicy says what a rolling update does when no host is free for the
// machine it would add.
// +kubebuilder:validation:Enum=Wait;InPlace
type NoSpareHostPolicy string

const (
	// NoSpareHostWait waits until a host is free. It is the default.
	NoSpareHostWait NoSpareHostPolicy = "Wait"

	// NoSpareHostInPlace upgrades machines on their own hosts instead, as far as
	// they differ in the version only.
	NoSpareHostInPlace NoSpareHostPolicy = "InPlace"
)

// HostMachinePoolStrategy says how machines are replaced.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || !(string(self.maxSurge) in ['0', '0%']) || !(string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge and maxUnavailable cannot both be 0: no machine could ever be replaced",fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type == 'InPlace') || !has(self.maxSurge) || !(string(self.maxSurge) in ['0', '0%']) || has(self.maxUnavailable)",message="maxUnavailable is 0 unless set, and maxSurge is 0 too: no machine could ever be replaced; set maxUnavailable to at least 1",fieldPath=".maxSurge"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'InPlace' || !has(self.maxUnavailable) || !(string(self.maxUnavailable) in ['0', '0%'])",message="type InPlace needs maxUnavailable of at least 1: a machine is not available while it is upgraded",fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:rule="!has(self.noSpareHost) || self.noSpareHost != 'InPlace' || (has(self.type) && self.type != 'RollingUpdate') || (has(self.maxUnavailable) && !(string(self.maxUnavailable) in ['0', '0%']))",message="noSpareHost InPlace needs maxUnavailable of at least 1: a machine is not available while it is upgraded",fieldPath=".noSpareHost"
// +kubebuilder:validation:MinProperties=1
type HostMachinePoolStrategy struct {
	// type is RollingUpdate when unset.
	// +optional
	Type RolloutType `json:"type,omitempty"`

	// maxSurge is how many machines the pool may have above its replicas during a
	// rollout: a number, or a percentage of the replicas, rounded up. It is 1 when
	// unset, and 0 with type InPlace. Each of them needs a free host.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,4}%$')",message="must be a number of at least 0 or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many machines may be missing from the replicas that
	// are available during a rollout: a number, or a percentage of the replicas,
	// rounded down. It is 0 when unset, and 1 with type InPlace. Where it and
	// maxSurge both round to 0, it is 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number of at least 0 or a percentage of at most 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// deletePolicy orders the machines to delete. It is Newest when unset.
	// +optional
	DeletePolicy DeletePolicy `json:"deletePolicy,omitempty"`

	// noSpareHost says what a rolling update does when no host is free for the
	// machine it would add. It is Wait when unset.
	// +optional
	NoSpareHost NoSpareHostPolicy `json:"noSpareHost,omitempty"`

	// progressDeadlineSeconds is how long a rollout may go without progress before
	// it is paused, in seconds. It is 1800 when unset. A rollout pauses at once
	// when a machine fails for good.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// HostMachinePoolSpread distributes machines over failure domains so that their
// numbers differ by one at most.
type HostMachinePoolSpread struct {
	// key is the label of Hosts that names the domain; Host.spec.failureDomain
	// does when it is unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// hard makes a machine wait for a host in its domain. Otherwise it takes one
	// of another domain when there is none.
	// +optional
	Hard *bool `json:"hard,omitempty"`
}

// SpreadDomain is the failure domain a pool chose for one machine.
type SpreadDomain struct {
	// key is the label of Hosts that names the domain; Host.spec.failureDomain
	// does when it is unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// value is the domain.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Value string `json:"value,omitempty"`

	// hard refuses hosts of other domains; they come second when it is false.
	// +optional
	Hard *bool `json:"hard,omitempty"`
}

// NodeInfo describes the Nodes of machines that don't exist yet, as the cluster
// autoscaler reads it.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture of the hosts, for example amd64.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Architecture string `json:"architecture,omitempty"`

	// operatingSystem of the hosts, which is linux.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// RemediationAction is what a pool does to an unhealthy machine.
// +kubebuilder:validation:Enum=Reboot;Rebootstrap;Replace
type RemediationAction string

const (
	// RemediationReboot reboots the host. It needs a bootstrapped host whose agent
	// is connected.
	RemediationReboot RemediationAction = "Reboot"

	// RemediationRebootstrap deletes the Machine and makes a new one on the same
	// host, once the host proved to be clean. It needs a connected agent.
	RemediationRebootstrap RemediationAction = "Rebootstrap"

	// RemediationReplace deletes the Machine; the pool makes a new one on whichever
	// host fits. A host whose agent is not connected keeps its claim until it
	// returns, resets and proves to be clean, and so needs another host to be free.
	RemediationReplace RemediationAction = "Replace"
)

// HostMachinePoolRemediation says what a pool does about the machines that a
// MachineHealthCheck found unhealthy. Without one it does a single thing: a machine
// whose host fell silent before anything was begun there is given up after ten
// minutes, when another host is free for it.
// +kubebuilder:validation:MinProperties=1
type HostMachinePoolRemediation struct {
	// steps are tried in this order until the machine is healthy. A step that is
	// not possible is passed over, for example a reboot without a connected agent.
	// The one step is Replace when unset.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Steps []RemediationStep `json:"steps,omitempty"`

	// maxInFlight is how many machines may be under remediation at once: a number,
	// or a percentage of the replicas, rounded up. It is 1 when unset; 0 turns
	// remediation off.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^([0-9]{1,2}|100)%$')",message="must be a number of at least 0 or a percentage of at most 100%"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`

	// minHealthyPeriodSeconds is how long a machine must be healthy after a step
	// until the steps begin anew with it, in seconds. One that is unhealthy again
	// sooner gets the next step. It is 3600 when unset.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinHealthyPeriodSeconds *int32 `json:"minHealthyPeriodSeconds,omitempty"`
}

// RemediationStep is one attempt to make a machine healthy.
type RemediationStep struct {
	// action is what is done.
	// +required
	Action RemediationAction `json:"action,omitempty"`

	// timeoutSeconds is how long the machine has to become healthy before the next
	// step begins, in seconds. It is 600 for Reboot and 1800 for Rebootstrap when
	// unset. Replace is the end of the machine and has none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}
