package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Facts are what conditions are computed from, besides the Host itself.
type Facts struct {
	Connection Connection
	// ClockSkew is how far the clock of the host is ahead of the manager's; nil while
	// that is not known.
	ClockSkew *time.Duration
	// Orphaned is true when a live read found no HostMachine for the claim.
	Orphaned bool
	// Twin is the host that shares an identity with this one; nil when none does.
	Twin *Twin
	// ManagerVersion is the version of the manager, to compare the agent's with.
	ManagerVersion string
	// ReleaseHooks tells who holds back a released host; nil while nobody does.
	ReleaseHooks *metav1.Condition
	// ReportRefused is what the API server refused of the agent's report; empty when it
	// accepted everything.
	ReportRefused string
	// Move says what delays a move; nil while none is requested.
	Move *metav1.Condition
}

// Conditions computes all conditions of a Host but Paused. Their transition times are
// left to the caller, who knows the conditions before.
func Conditions(h *infrav1.Host, f Facts) []metav1.Condition {
	h = h.DeepCopy()
	refusals := []metav1.Condition{duplicateIdentity(f.Twin), agentSupported(h, f.ManagerVersion)}
	for _, c := range refusals {
		// Whether the host is available depends on them as they are now.
		meta.SetStatusCondition(&h.Status.Conditions, c)
	}
	conditions := slices.Concat(refusals, []metav1.Condition{agentConnected(h, f.Connection), clockSkewed(h, f.ClockSkew), available(h, f), ready(h, f)})
	for _, c := range []*metav1.Condition{f.ReleaseHooks, f.Move, agentUpdated(h), reportAccepted(f.ReportRefused), nodeIdentityKept(h), recordKept(h), configurationAccepted(h)} {
		if c != nil {
			conditions = append(conditions, *c)
		}
	}
	for i := range conditions {
		conditions[i].ObservedGeneration = h.Generation
	}
	return conditions
}

func agentConnected(h *infrav1.Host, c Connection) metav1.Condition {
	condition := metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostHeartbeatFreshReason}
	switch {
	case c.Connected:
	case c.LastSeen.IsZero():
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.HostNoHeartbeatReason
		condition.Message = "The agent has never been heard of. Start slipway-agent on the host" + restoredHowTo(h)
	default:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.HostHeartbeatStaleReason
		condition.Message = fmt.Sprintf("The last heartbeat of the agent is of %s by its own clock. Check the host's power and network, and that slipway-agent runs",
			c.LastSeen.UTC().Format(time.RFC3339))
	}
	return condition
}

// maxReportRefused bounds what a condition says of a report: the agent wrote it.
const maxReportRefused = 512

// reportAccepted is nil while the API server accepts the whole report.
func reportAccepted(refused string) *metav1.Condition {
	if refused == "" {
		return nil
	}
	return &metav1.Condition{Type: infrav1.ReportAcceptedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostFieldsRefusedReason,
		Message: fmt.Sprintf("The API server refuses fields of the agent's report, and the Host lacks them: %.*s. "+
			"Install the CRDs and the manager of the agent's version", maxReportRefused, strings.ToValidUTF8(refused, "?"))}
}

// configurationAccepted is nil while the agent accepts its whole configuration.
func configurationAccepted(h *infrav1.Host) *metav1.Condition {
	wrong := h.Status.ConfigurationErrors
	if len(wrong) == 0 {
		return nil
	}
	return &metav1.Condition{Type: infrav1.ConfigurationAcceptedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostEntriesInvalidReason,
		Message: fmt.Sprintf("The agent works without a part of its configuration: %s. Correct /etc/slipway/agent.yaml on the host, then systemctl restart slipway-agent", strings.Join(wrong[:min(len(wrong), maxResidue)], "; "))}
}

// restoredHowTo is for a Host that knows its machine though the agent has not been here: it
// came with a move, whose agents follow by themselves, or from a backup, whose do not.
func restoredHowTo(h *infrav1.Host) string {
	if h.Spec.HostID == "" || h.UID == "" || Restored(h) {
		return ""
	}
	return fmt.Sprintf(". Was the Host restored from a backup, or did the management cluster that it moved from get lost? Once that is gone for good, annotate the Host with %s=%s (docs/clusterctl.md#backup-and-restore); "+
		"until then do not delete it, nor its Machine", infrav1.RestoredAnnotation, h.UID)
}

func available(h *infrav1.Host, f Facts) metav1.Condition {
	why := Unavailable(h, f.Connection.Connected)
	if why == (State{}) {
		return metav1.Condition{Type: infrav1.AvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostAvailableReason}
	}
	return metav1.Condition{Type: infrav1.AvailableCondition, Status: metav1.ConditionFalse, Reason: why.Reason, Message: why.Message}
}

// ready is true while the host does what its spec requests: free and claimable, or
// claimed and running. What an operator must act on makes it false.
func ready(h *infrav1.Host, f Facts) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse}
	state := StateOf(h)
	switch {
	case !h.DeletionTimestamp.IsZero():
		condition.Reason, condition.Message = infrav1.HostDeletingReason, "Waiting for the claim to be released"
	case f.Orphaned && h.Spec.Claim != nil:
		condition.Reason, condition.Message = infrav1.HostOrphanedClaimReason, orphanMessage(h.Spec.Claim, Adopting(h))
	case state.Phase == infrav1.HostPhaseAvailable && Leaving(h):
		why := leavingState(h)
		condition.Reason, condition.Message = why.Reason, why.Message
	case !f.Connection.Connected && state.Phase != infrav1.HostPhaseEnrolling:
		connected := agentConnected(h, f.Connection)
		condition.Reason, condition.Message = infrav1.HostAgentNotConnectedReason, connected.Message
	case state.Phase == infrav1.HostPhaseAvailable && refused(h) != State{}:
		why := refused(h)
		condition.Reason, condition.Message = why.Reason, why.Message
	default:
		condition.Reason, condition.Message = state.Reason, state.Message
		if state.Phase == infrav1.HostPhaseAvailable || state.Phase == infrav1.HostPhaseRunning {
			condition.Status = metav1.ConditionTrue
		}
	}
	return condition
}

func orphanMessage(claim *infrav1.HostClaim, adopting bool) string {
	if adopting {
		return fmt.Sprintf("HostMachine %s, which was to adopt the node on the host, is gone; the host is left alone. "+
			"To end the claim and leave the node as it is, annotate the host with %s=%s", claim.MachineName, infrav1.ReleaseOrphanAnnotation, claim.ClaimID)
	}
	return fmt.Sprintf("HostMachine %s, which claimed the host, is gone and requested no reset; the host is left alone. "+
		"To reset it, annotate it with %s=%s", claim.MachineName, infrav1.ReleaseOrphanAnnotation, claim.ClaimID)
}
