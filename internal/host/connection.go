package host

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// ClockSkewLimit is the difference between the clocks of a host and the manager that is not reported.
// Connections don't depend on it, certificates and tokens do: Kubernetes bears one minute
// between the clocks of who issues a service account's token and who verifies it. Half of
// that leaves time to act, and is far more than a heartbeat takes to arrive.
const ClockSkewLimit = 30 * time.Second

const (
	// skewStep is the change of a skew that is reported again: the delay of heartbeats varies, and
	// each report costs a write.
	skewStep = 10 * time.Second
	// maxSkew keeps what a host with a senseless clock says within bounds.
	maxSkew = 100 * 365 * 24 * time.Hour
)

// Skew measures how far a remote clock is ahead of the local one, by messages with its time. Delay
// makes the remote clock look slow, so the message with the least delay counts. The
// zero value is ready for use.
type Skew struct {
	last     time.Duration
	measured bool
	told     time.Duration
	known    bool
}

// Add takes in a message that says sent and was received at received. It returns true
// when that changes what Told returns.
func (s *Skew) Add(sent, received time.Time) bool {
	now := min(max(sent.Sub(received), -maxSkew), maxSkew)
	skew, compared := max(s.last, now), s.measured
	s.last, s.measured = now, true
	if !compared || (s.known && (skew-s.told).Abs() < skewStep) {
		return false
	}
	s.told, s.known = skew, true
	return true
}

// Told is the skew to report, to within ten seconds; nil before the second message.
func (s *Skew) Told() *time.Duration {
	if !s.known {
		return nil
	}
	told := s.told
	return &told
}

// clockSkewed reports a skew. While none is known, as after a restart of the manager, what
// was reported before stands.
func clockSkewed(h *infrav1.Host, skew *time.Duration) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.ClockSkewedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostClocksAgreeReason}
	if skew == nil {
		if before := meta.FindStatusCondition(h.Status.Conditions, infrav1.ClockSkewedCondition); before != nil {
			return *before
		}
		return condition
	}
	if skew.Abs() < ClockSkewLimit {
		return condition
	}
	condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.HostClockAheadReason
	where := "ahead of"
	if *skew < 0 {
		condition.Reason, where = infrav1.HostClockBehindReason, "behind"
	}
	condition.Message = fmt.Sprintf("The clock of the host is %d s %s the manager's, which certificates and tokens may not bear. "+
		"Set it from the network: timedatectl on the host tells whether chrony or systemd-timesyncd does. "+
		"If most hosts report this, the manager's clock is wrong", int64(skew.Abs().Round(time.Second)/time.Second), where)
	return condition
}

// Connection is what is known of an agent by its heartbeats.
type Connection struct {
	// Connected is true while the last heartbeat is fresh, by the clock of who looks.
	Connected bool
	// LastSeen is the time that the agent wrote into the last heartbeat, by its own
	// clock; zero when there was none. It is for display, never for decisions.
	LastSeen time.Time
	// Expires is when the last heartbeat stops being fresh, by the clock of who looks.
	Expires time.Time
}

// Connected says whether the agent of a host is connected, as the Host controller last
// judged it. Nobody else judges it: only that controller watches the heartbeats.
func Connected(h *infrav1.Host) bool {
	return meta.IsStatusConditionTrue(h.Status.Conditions, infrav1.AgentConnectedCondition)
}

// Disconnected says whether the Host controller judged that the agent is away. Neither
// this nor Connected is true of a host that nobody has judged yet.
func Disconnected(h *infrav1.Host) bool {
	return meta.IsStatusConditionFalse(h.Status.Conditions, infrav1.AgentConnectedCondition)
}
