package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 4,
	Name:   "NodeIdentityChanged",
	Means:  "a host was renamed since it became a node, or has lost the address of its Node; the Node keeps both; a note at first, a warning after a minute, for the address an error after five",
	Remedy: "Restore the host's name or address, as the message says, or delete its Machine: the next Node has the new ones.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			c := condition(h.Status.Conditions, infrav1.NodeIdentityKeptCondition, metav1.ConditionFalse)
			if c == nil {
				return none()
			}
			if c.Reason == infrav1.HostNodeAddressMissingReason {
				return atHost(h, s.severitySince(c.LastTransitionTime.Time)).of(c).next("on the host: ip address"), true
			}
			f := atHost(h, s.severitySince(c.LastTransitionTime.Time).upToWarning()).of(c).next("on the host: hostnamectl status")
			if node := h.Status.Node; node != nil {
				f = f.next("on the host: hostnamectl set-hostname %s", node.HostName)
			}
			return f, true
		})
	},
})
