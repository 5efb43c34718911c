package doctor

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
)

var _ = register(Check{
	Layer:  Extension + 1,
	Name:   "ExtensionNotDiscovered",
	Means:  "a runtime extension does not answer discovery; its handlers fail by their failure policy",
	Remedy: "Check that its pods run, and address and CA of its configuration. Delete the configuration of an extension that is no longer used.",
	find: func(s *Snapshot) []Finding {
		return s.extensions(runtimev1alpha1.DiscoveredCondition, Error)
	},
})

// extensions finds those of both kinds whose condition is False.
func (s *Snapshot) extensions(kind string, severity Severity) []Finding {
	upstream := each(s.ExtensionConfigs, func(e *runtimev1.ExtensionConfig) (Finding, bool) {
		if c := condition(e.Status.Conditions, kind, metav1.ConditionFalse); c != nil {
			return at(runtimev1.GroupVersion, "ExtensionConfig", e, severity).of(c).describe(), true
		}
		return none()
	})
	return slices.Concat(upstream, each(s.HostExtensionConfigs, func(e *runtimev1alpha1.HostExtensionConfig) (Finding, bool) {
		if c := condition(e.Status.Conditions, kind, metav1.ConditionFalse); c != nil {
			return at(runtimev1alpha1.GroupVersion, "HostExtensionConfig", e, severity).of(c).describe(), true
		}
		return none()
	}))
}
