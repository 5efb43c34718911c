package doctor

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Extension + 3,
	Name:   "HostHookWaits",
	Effect: Decision,
	Means:  "an extension blocks the claim of a host, or the next claim of a released host",
	Remedy: "The message names the extension and what it waits for. Failed means that it could not be called, or answered with an error.",
	find: func(s *Snapshot) []Finding {
		claims := each(s.HostMachines, func(m *infrav1.HostMachine) (Finding, bool) {
			if c := condition(m.Status.Conditions, infrav1.ClaimHooksPassedCondition, metav1.ConditionFalse); c != nil {
				return atHostMachine(m, hookSeverity(c)).of(c).describe(), true
			}
			return none()
		})
		return slices.Concat(claims, each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.ReleaseHooksPassedCondition, metav1.ConditionFalse); c != nil {
				return atHost(h, hookSeverity(c)).of(c).describe(), true
			}
			return none()
		}))
	},
})

func hookSeverity(c *metav1.Condition) Severity {
	if c.Reason == infrav1.HooksFailedReason {
		return Error
	}
	return Warning
}
