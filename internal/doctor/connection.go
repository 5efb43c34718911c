package doctor

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer: Agent + 2,
	Name:  "HostDisconnected",
	Means: "the agent of a host does not report; its workload continues, and no operation can start there; a note at first, a warning after a minute, of a claimed host an error after five",
	Remedy: "Check power and network of the host, and slipway-agent on it. If many are away, find what they share: a switch, or the address of the management cluster. " +
		"After a restore from a backup, no agent comes until each Host is annotated: see Backup and restore in docs/clusterctl.md. Delete neither Machines nor Hosts for that.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			c := condition(h.Status.Conditions, infrav1.AgentConnectedCondition, metav1.ConditionFalse)
			if c == nil {
				return none()
			}
			if c.Reason == infrav1.HostNoHeartbeatReason && s.Now.Sub(c.LastTransitionTime.Time) < firstHeartbeatPatience {
				return none()
			}
			begin := lastHeard(c)
			severity := s.severityOn(h, begin)
			if h.Spec.Claim == nil {
				severity = severity.upToWarning()
			}
			return atHost(h, severity).of(c).since(begin).next("on the host: systemctl restart slipway-agent"), true
		})
	},
})

// firstHeartbeatPatience is how long an agent may take to report for the first time: its Host is
// made before it has its certificate.
const firstHeartbeatPatience = time.Minute

// maxHeartbeat is how long after the last heartbeat an agent is known to be away, at most.
const maxHeartbeat = 10 * time.Minute

// lastHeard is when an agent was last heard, which only the message of its condition says, by the
// clock of the host: the condition becomes False once the heartbeat is no longer fresh. Where that
// clock cannot be right, it is when the condition did.
func lastHeard(c *metav1.Condition) time.Time {
	known := c.LastTransitionTime.Time
	if _, rest, found := strings.Cut(c.Message, "The last heartbeat of the agent is of "); found {
		word, _, _ := strings.Cut(rest, " ")
		if t, err := time.Parse(time.RFC3339, word); err == nil && t.Before(known) && known.Sub(t) < maxHeartbeat {
			return t
		}
	}
	return known
}
