package host

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Connection is what is known of an agent by its heartbeats.
type Connection struct {
	// Connected is true while the last heartbeat is fresh, by the clock of who looks.
	Connected bool
	// LastSeen is the time that the agent wrote into the last heartbeat, by its own
	// clock; zero when there was none. It is told, never reckoned with.
	LastSeen time.Time
	// Expires is when the last heartbeat stops being fresh, by the clock of who looks.
	Expires time.Time
}

// Connected says whether the agent of a host is connected, as the Host controller last
// judged it. Everybody else takes its word: it alone has watched the heartbeats come.
func Connected(h *infrav1.Host) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AgentConnectedCondition)
}

// Disconnected says whether the Host controller judged that the agent is away. Neither
// this nor Connected is true of a host that nobody has judged yet.
func Disconnected(h *infrav1.Host) bool {
	return meta.IsStatusConditionFalse(h.Status.Conditions, infrav1.AgentConnectedCondition)
}
