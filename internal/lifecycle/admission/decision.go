package admission

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Bounds of the API.
const (
	maxReason    = 1024
	maxDecisions = 256
)

// parse reads the value of an annotation: the name of a step, and after a colon the
// reason.
func parse(value string) (name, reason string, err error) {
	name, reason, _ = strings.Cut(value, ":")
	name, reason = strings.TrimSpace(name), strings.TrimSpace(reason)
	switch {
	case name == "":
		return "", "", fmt.Errorf("must be the name of a step, and may have a reason after a colon: \"step: reason\"")
	case len(reason) > maxReason:
		return "", "", fmt.Errorf("the reason must not be longer than %d bytes", maxReason)
	}
	return name, reason, nil
}

// decide returns what is decided about a run; nil when that was decided already. The
// error says why it cannot be decided now, and what can.
func decide(run *lifecyclev1.LifecycleRun, what lifecyclev1.DecisionType, value, by string, now time.Time) (*lifecyclev1.Decision, error) {
	name, reason, err := parse(value)
	if err != nil {
		return nil, err
	}
	s := run.Step(name)
	if s == nil {
		return nil, fmt.Errorf("the run has no step %q; its steps are %s", name, strings.Join(names(run), ", "))
	}
	if err := open(run, s); err != nil {
		return nil, err
	}
	decided := step.DecisionsFor(run, name)
	progress := run.Progress(name)
	failed := progress != nil && progress.Outcome == lifecyclev1.OutcomeFailed
	switch what {
	case lifecyclev1.DecisionApprove:
		switch {
		case step.FactsOf(s).Approval == "":
			return nil, fmt.Errorf("step %q waits for no approval: it can be skipped, by the annotation %s", name, lifecyclev1.SkipAnnotation)
		case failed:
			return nil, fmt.Errorf("step %q has failed: start it anew first, by the annotation %s", name, lifecyclev1.RetryAnnotation)
		case decided.Approve != nil:
			return nil, nil
		}
	case lifecyclev1.DecisionSkip:
		if decided.Skip != nil {
			return nil, nil
		}
	case lifecyclev1.DecisionRetry:
		switch {
		case !failed:
			return nil, fmt.Errorf("step %q has not failed: attempts are repeated by themselves; to go on without it, use the annotation %s", name, lifecyclev1.SkipAnnotation)
		case decided.Retries > progress.Attempt:
			return nil, nil
		}
	}
	if len(run.Spec.Decisions) >= maxDecisions {
		return nil, fmt.Errorf("the run holds %d decisions, and no more", maxDecisions)
	}
	return &lifecyclev1.Decision{Type: what, Step: name, By: by, Time: metav1.NewTime(now), Reason: reason}, nil
}

// open says why nothing can be decided about a step: only the current one is open, and a
// window that was open when it was reached, since it must be when the hook passes.
func open(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step) error {
	if run.Spec.Cancelled != "" {
		return fmt.Errorf("the run was cancelled: %s", run.Spec.Cancelled)
	}
	progress := run.Progress(s.Name)
	if step.FactsOf(s).Lasting != nil && progress != nil && progress.Outcome == lifecyclev1.OutcomeSucceeded {
		return nil
	}
	current := plan.Current(run)
	if current == nil {
		return fmt.Errorf("the run has ended")
	}
	if current.Name == s.Name {
		return nil
	}
	if progress != nil && progress.Outcome != "" {
		return fmt.Errorf("step %q has ended already; the run is at step %q", s.Name, current.Name)
	}
	return fmt.Errorf("step %q is not reached yet; the run is at step %q", s.Name, current.Name)
}

func names(run *lifecyclev1.LifecycleRun) []string {
	list := make([]string, len(run.Spec.Steps))
	for i := range run.Spec.Steps {
		list[i] = run.Spec.Steps[i].Name
	}
	return list
}
