package pool

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Defaults of HostMachinePool.spec.remediation.
const (
	defaultMinHealthyPeriod   = time.Hour
	defaultRebootTimeout      = 10 * time.Minute
	defaultRebootstrapTimeout = 30 * time.Minute
)

// RemediationStep is one attempt to make a machine healthy.
type RemediationStep struct {
	Action infrav1.RemediationAction
	// Timeout is how long the machine has to become healthy.
	Timeout time.Duration
}

// RemediationPolicy is HostMachinePool.spec.remediation with its defaults.
type RemediationPolicy struct {
	Steps            []RemediationStep
	MaxInFlight      int
	MinHealthyPeriod time.Duration
}

// NewRemediationPolicy fills in the defaults. It fails on a maxInFlight that is neither a
// number nor a percentage.
func NewRemediationPolicy(spec infrav1.HostMachinePoolRemediation, replicas int) (RemediationPolicy, error) {
	p := RemediationPolicy{MaxInFlight: 1, MinHealthyPeriod: defaultMinHealthyPeriod}
	if spec.MaxInFlight != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxInFlight, replicas, true)
		if err != nil {
			return RemediationPolicy{}, fmt.Errorf("spec.remediation.maxInFlight: %w", err)
		}
		p.MaxInFlight = n
	}
	if spec.MinHealthyPeriodSeconds != nil {
		p.MinHealthyPeriod = time.Duration(*spec.MinHealthyPeriodSeconds) * time.Second
	}
	for _, step := range spec.Steps {
		p.Steps = append(p.Steps, RemediationStep{step.Action, timeout(step)})
	}
	if len(p.Steps) == 0 {
		p.Steps = []RemediationStep{{Action: infrav1.RemediationReplace}}
	}
	return p, nil
}

func timeout(step infrav1.RemediationStep) time.Duration {
	switch {
	case step.TimeoutSeconds != nil:
		return time.Duration(ptr.Deref(step.TimeoutSeconds, 0)) * time.Second
	case step.Action == infrav1.RemediationReboot:
		return defaultRebootTimeout
	default:
		return defaultRebootstrapTimeout
	}
}

// Attempt is the last step that was tried on a machine, as it stands in the
// annotation RemediationAnnotation of its HostMachine.
type Attempt struct {
	// RemediationStep counts the steps of the policy from 0.
	Step   int                       `json:"step"`
	Action infrav1.RemediationAction `json:"action"`
	// Since is when the step began.
	Since time.Time `json:"since"`
	// Replaces is the HostMachine in whose place this one was made, on the same
	// host, by action Rebootstrap.
	Replaces string `json:"replaces,omitempty"`
}

// ParseAttempt reads the annotation of a HostMachine. One that is missing, or that
// somebody spoiled, is no attempt: the steps begin anew.
func ParseAttempt(annotations map[string]string) *Attempt {
	value, ok := annotations[infrav1.RemediationAnnotation]
	if !ok {
		return nil
	}
	attempt := &Attempt{}
	if err := json.Unmarshal([]byte(value), attempt); err != nil || attempt.Step < 0 || attempt.Action == "" || attempt.Since.IsZero() {
		return nil
	}
	return attempt
}

// String is the value of the annotation.
func (a Attempt) String() string {
	value, err := json.Marshal(a)
	if err != nil {
		panic("remediation: an attempt that cannot be encoded: " + err.Error())
	}
	return string(value)
}
