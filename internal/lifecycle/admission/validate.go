package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Validate returns the faults of a policy that can be found without the API server;
// nil when there are none.
func Validate(policy *lifecyclev1.LifecyclePolicy) error { return validate(policy).ToAggregate() }

func validate(policy *lifecyclev1.LifecyclePolicy) field.ErrorList {
	spec := field.NewPath("spec")
	errs := step.ValidateSelector(policy.Spec.ClusterSelector, spec.Child("clusterSelector"))
	if policy.Spec.MatchCondition != "" {
		errs = append(errs, step.ValidateExpression(policy.Spec.MatchCondition, expression.Match, spec.Child("matchCondition"))...)
	}
	for i := range policy.Spec.Hooks {
		hook := &policy.Spec.Hooks[i]
		for j := range hook.Steps {
			errs = append(errs, step.Validate(hook.Hook, &hook.Steps[j], step.Path(i, j))...)
		}
	}
	return errs
}
