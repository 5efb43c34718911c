package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer: Agent + 2,
	Name:  "HostDisconnected",
	Means: "the agent of a host does not report; its workload continues, and no operation can start there",
	Remedy: "Check power and network of the host, and slipway-agent on it. If many are away, find what they share: a switch, or the address of the management cluster. " +
		"After a restore from a backup, no agent comes until each Host is annotated: see Backup and restore in docs/clusterctl.md. Delete neither Machines nor Hosts for that.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			c := condition(h.Status.Conditions, infrav1.AgentConnectedCondition, metav1.ConditionFalse)
			if c == nil {
				return none()
			}
			severity := Warning
			if h.Spec.Claim != nil {
				severity = Error
			}
			return atHost(h, severity).of(c).next("on the host: systemctl status slipway-agent"), true
		})
	},
})
