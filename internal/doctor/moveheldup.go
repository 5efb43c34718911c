package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Housekeeping + 1,
	Name:   "MoveHeldUp",
	Effect: Remark,
	Means:  "a host cannot be handed over, so `clusterctl move` of its cluster does not go through",
	Remedy: "Do what the message says, then run the move again; or unpause the Cluster to cancel the move.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.ReadyToMoveCondition, metav1.ConditionFalse); c != nil {
				severity := Warning
				// An operation ends, and who pauses a Cluster need not mean to move it.
				if c.Reason == infrav1.HostOperationInProgressReason || c.Reason == infrav1.HostNoHandOverReason {
					severity = Note
				}
				return atHost(h, severity).of(c).describe(), true
			}
			return none()
		})
	},
})
