package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

var _ = register(Check{
	Layer:  Extension + 5,
	Name:   "PolicyNotReady",
	Means:  "a lifecycle policy cannot be executed: a right or a referenced object is missing, or it contradicts another policy",
	Remedy: "Correct what the message names; its commands grant missing rights.",
	find: func(s *Snapshot) []Finding {
		return each(s.LifecyclePolicies, func(p *lifecyclev1.LifecyclePolicy) (Finding, bool) {
			if c := condition(p.Status.Conditions, lifecyclev1.ReadyCondition, metav1.ConditionFalse); c != nil {
				return at(lifecyclev1.GroupVersion, "LifecyclePolicy", p, Error).of(c).describe(), true
			}
			return none()
		})
	},
})
