package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Housekeeping + 4,
	Name:   "HostKeptBack",
	Effect: Hold,
	Means:  "somebody keeps a host from being claimed, by `spec.unschedulable` or `spec.evacuate`",
	Remedy: "End the maintenance when the host may be used again: `slipway host uncordon`.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			field, reason := "unschedulable", infrav1.HostUnschedulableReason
			if ptr.Deref(h.Spec.Evacuate, false) {
				field, reason = "evacuate", infrav1.HostEvacuateReason
			} else if !ptr.Deref(h.Spec.Unschedulable, false) {
				return none()
			}
			f := atHost(h, Note)
			f.Message = "spec." + field + " is set"
			if why := h.Annotations[infrav1.MaintenanceReasonAnnotation]; why != "" {
				f.Message += ": " + why
			}
			if c := condition(h.Status.Conditions, infrav1.AvailableCondition, metav1.ConditionFalse, reason); c != nil {
				f = f.since(c.LastTransitionTime.Time)
			}
			return f.next("slipway host uncordon %s -n %s", h.Name, h.Namespace), true
		})
	},
})
