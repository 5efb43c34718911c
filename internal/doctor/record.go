package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 4,
	Name:   "RecordLost",
	Means:  "the agent of a host lost its journal, or it is damaged: no reset verifies the host as clean until you have confirmed it",
	Remedy: "Do what the message says. The host's workload continues; see No record, no proof in docs/hosts.md.",
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
			return atHost(h, severity).of(c).next("on the host: slipway-agent status"), true
		})
	},
})

var _ = register(Check{
	Layer:  Agent + 4,
	Name:   "ConfigurationNotAccepted",
	Means:  "an agent ignores an invalid part of its configuration, so a reset compares more than its operator wants",
	Remedy: "Correct the entries in /etc/slipway/agent.yaml of the host, and restart slipway-agent.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			c := condition(h.Status.Conditions, infrav1.ConfigurationAcceptedCondition, metav1.ConditionFalse)
			if c == nil {
				return none()
			}
			return atHost(h, Warning).of(c).next("on the host: systemctl restart slipway-agent"), true
		})
	},
})
