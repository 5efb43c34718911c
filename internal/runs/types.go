package runs

import (
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Explanation is all that lifecycle policies mean for one Cluster. Its JSON form is
// an API.
type Explanation struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Policies of the namespace, by name; those that do not match say why.
	Policies []Policy `json:"policies"`
	// Runs of the Cluster, in the order of the hooks, then by policy and attempt.
	Runs []Run `json:"runs"`
}

// Policy is one LifecyclePolicy as the Cluster sees it.
type Policy struct {
	Name string                 `json:"name"`
	Mode lifecyclev1.PolicyMode `json:"mode"`
	// Hooks that it answers.
	Hooks []lifecyclev1.HookName `json:"hooks"`
	// Matches says whether it selects the Cluster, and Message why not, or what is
	// wrong with the policy.
	Matches bool   `json:"matches"`
	Message string `json:"message,omitempty"`
}

// Run is one LifecycleRun.
type Run struct {
	Name    string                 `json:"name"`
	Hook    lifecyclev1.HookName   `json:"hook"`
	Policy  string                 `json:"policy"`
	Mode    lifecyclev1.PolicyMode `json:"mode"`
	Attempt int32                  `json:"attempt"`
	Phase   lifecyclev1.RunPhase   `json:"phase"`
	Request lifecyclev1.RunRequest `json:"request,omitzero"`
	// Blocks says whether the Cluster waits for it now.
	Blocks bool `json:"blocks"`
	// Message says what it waits for and what to do, or how it ended.
	Message string `json:"message,omitempty"`
	// Current is the step that waits, is under way or failed; empty when none is left.
	Current   string                 `json:"current,omitempty"`
	Steps     []Step                 `json:"steps"`
	Decisions []lifecyclev1.Decision `json:"decisions,omitempty"`
}

// Step is one step of a run.
type Step struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// State is an outcome, or Waiting for the current step, or Pending.
	State string `json:"state"`
	// Since is when its first attempt began, Until when it ended.
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// Failures is how many attempts failed.
	Failures int32  `json:"failures,omitempty"`
	Message  string `json:"message,omitempty"`
}
