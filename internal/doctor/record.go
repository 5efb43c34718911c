package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 4,
	Name:   "RecordLost",
	Means:  "the agent of a host does not know what was done to it, as its journal is lost or damaged: no reset proves the host clean until you have looked at it",
	Remedy: "Do what the message says. What runs on the host runs on; see No record, no proof in docs/hosts.md.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			c := condition(h.Status.Conditions, infrav1.RecordKeptCondition, metav1.ConditionFalse)
			if c == nil {
				return none()
			}
			severity := Error
			if h.Spec.Claim != nil {
				severity = Warning // its node goes on
			}
			return atHost(h, severity).of(c).next("slipway-agent status"), true
		})
	},
})

var _ = register(Check{
	Layer:  Agent + 4,
	Name:   "ConfigurationNotAccepted",
	Means:  "an agent does not accept a part of its configuration and goes on without it, so that a reset compares more than its operator wants",
	Remedy: "Mend the entries in /etc/slipway/agent.yaml of the host, and restart slipway-agent.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			c := condition(h.Status.Conditions, infrav1.ConfigurationAcceptedCondition, metav1.ConditionFalse)
			if c == nil {
				return none()
			}
			return atHost(h, Warning).of(c).next("slipway-agent status"), true
		})
	},
})
