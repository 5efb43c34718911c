package v1beta2

import "k8s.io/apimachinery/pkg/util/intstr"

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
