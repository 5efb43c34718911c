package plan

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/internal/lifecycle/step"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// maxSteps is the maximum number of steps of a run.
const maxSteps = 64

// Adopt takes over what a policy says now into a run that is Open: its mode, and the
// steps of the run's hook. Steps that have passed stay as they were, and come first; so
// does one whose Job was made: until then it is the policy that says which. A window
// matters until the hook has passed, so it is the policy's until then. A step that is
// changed while it waits begins anew; one that failed stays failed until somebody
// decides. It says whether the run changed, which it does not for a policy that is gone.
//
// Contents are compared, not generations: clusterctl move counts those from 1 again.
func Adopt(run *lifecyclev1.LifecycleRun, policy *lifecyclev1.LifecyclePolicy, cluster *clusterv1.Cluster, now time.Time) bool {
	if policy == nil || !Open(run, cluster, now) {
		return false
	}
	wanted := policy.Steps(run.Spec.Hook)
	if len(wanted) == 0 {
		return false
	}
	before := run.Spec.DeepCopy()
	run.Spec.Mode = policy.Spec.Mode
	run.Spec.PolicyGeneration = policy.Generation
	kept := slices.DeleteFunc(slices.Clone(before.Steps), func(s lifecyclev1.Step) bool { return !settled(run, &s, wanted) })
	steps := kept
	for i := range wanted {
		if !names(kept, wanted[i].Name) {
			steps = append(steps, *wanted[i].DeepCopy())
		}
	}
	run.Spec.Steps = trim(steps, wanted)
	dropStale(run, before)
	return !apiequality.Semantic.DeepEqual(before, &run.Spec)
}

// settled says whether the policy has no say about a step any more.
func settled(run *lifecyclev1.LifecycleRun, s *lifecyclev1.Step, wanted []lifecyclev1.Step) bool {
	progress := run.Progress(s.Name)
	if progress == nil {
		return false
	}
	if lasts(run, s) {
		return slices.ContainsFunc(wanted, func(w lifecyclev1.Step) bool { return apiequality.Semantic.DeepEqual(&w, s) })
	}
	return passed(run, s) || progress.Outcome == "" && progress.Job != nil && progress.Job.UID != ""
}

// dropStale removes the records of steps that are gone, or have changed before they
// ended, and what they had pinned. A window that has changed begins anew.
func dropStale(run *lifecyclev1.LifecycleRun, before *lifecyclev1.LifecycleRunSpec) {
	run.Spec.Pins = slices.DeleteFunc(run.Spec.Pins, func(p lifecyclev1.Pin) bool {
		i := slices.IndexFunc(before.Steps, func(s lifecyclev1.Step) bool { return s.Name == p.Step })
		return i < 0 || !apiequality.Semantic.DeepEqual(&before.Steps[i], run.Step(p.Step))
	})
	run.Spec.Progress = slices.DeleteFunc(run.Spec.Progress, func(p lifecyclev1.StepProgress) bool {
		now := run.Step(p.Name)
		if now == nil {
			return true
		}
		i := slices.IndexFunc(before.Steps, func(s lifecyclev1.Step) bool { return s.Name == p.Name })
		open := p.Outcome == "" || i >= 0 && step.FactsOf(&before.Steps[i]).Lasting != nil && p.Outcome == lifecyclev1.OutcomeSucceeded
		return open && (i < 0 || !apiequality.Semantic.DeepEqual(&before.Steps[i], now))
	})
}

// trim drops passed steps that the policy does not name any more, oldest first, when
// many edits have made more steps than a run can have.
func trim(steps, wanted []lifecyclev1.Step) []lifecyclev1.Step {
	excess := len(steps) - maxSteps
	return slices.DeleteFunc(steps, func(s lifecyclev1.Step) bool {
		if excess <= 0 || names(wanted, s.Name) {
			return false
		}
		excess--
		return true
	})
}

func names(steps []lifecyclev1.Step, name string) bool {
	return slices.ContainsFunc(steps, func(s lifecyclev1.Step) bool { return s.Name == name })
}
