package doctor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 3,
	Name:   "ReportRefused",
	Means:  "the API server refuses a part of the report of a host's agent, so the Host lacks these fields",
	Remedy: "Install the CRDs and the manager of the agent's version. If the message names your own admission policy or webhook, let it admit the agent's status.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if c := condition(h.Status.Conditions, infrav1.ReportAcceptedCondition, metav1.ConditionFalse); c != nil {
				return atHost(h, Error).of(c).next("on the host: journalctl -u slipway-agent"), true
			}
			return none()
		})
	},
})
