package host

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	built "github.com/slipway-dev/slipway/internal/version"
)

// AgentState is how far the agent of a host is with a version of slipway-agent.
type AgentState int

const (
	// AgentOutdated is an agent of which the version was not requested.
	AgentOutdated AgentState = iota
	// AgentUpdating is one of which it was requested, and that has not reported success.
	AgentUpdating
	// AgentUpdateFailed is one that tried and returned to its previous version.
	AgentUpdateFailed
	// AgentUpdated is one that runs the version, or a newer one.
	AgentUpdated
)

// Agent is what a Host says of the version of its agent. It is comparable.
type Agent struct {
	// Version that the agent reports.
	Version string
	// Asked is spec.agent; zero for none.
	Asked infrav1.HostAgentSpec
	// Report is status.agentUpdate; zero for none.
	Report infrav1.HostAgentUpdate
}

// AgentOf reads it.
func AgentOf(h *infrav1.Host) Agent {
	return Agent{Version: h.Status.Inventory.AgentVersion, Asked: ptr.Deref(h.Spec.Agent, infrav1.HostAgentSpec{}), Report: ptr.Deref(h.Status.AgentUpdate, infrav1.HostAgentUpdate{})}
}

// AgentManaged says whether the host's agent reports that it updates itself.
func AgentManaged(h *infrav1.Host) bool {
	return h.Status.Software.AgentManagement == infrav1.HostSoftwareManaged
}

// ReportOn is the agent's report on that very bundle; zero for none.
func (a Agent) ReportOn(wanted infrav1.HostAgentSpec) infrav1.HostAgentUpdate {
	if a.Report.Version != wanted.Version || a.Report.ReleaseDigest != wanted.ReleaseDigest {
		return infrav1.HostAgentUpdate{}
	}
	return a.Report
}

// State is how far the agent is. One that still tries the version may go back: that it runs
// it proves nothing.
func (a Agent) State(wanted infrav1.HostAgentSpec) AgentState {
	report := a.ReportOn(wanted).State
	switch {
	case a.runs(wanted.Version) && report != infrav1.HostAgentUpdateTrying:
		return AgentUpdated
	case report == infrav1.HostAgentUpdateFailed:
		return AgentUpdateFailed
	case a.Asked == wanted:
		return AgentUpdating
	default:
		return AgentOutdated
	}
}

// runs says whether the agent runs the version, or a newer one.
func (a Agent) runs(wanted string) bool {
	running, least := Versioned(a.Version), Versioned(wanted)
	return running != nil && least != nil && running.AtLeast(least)
}

// Versioned is the version of an agent or a manager; nil for one that cannot be compared, such
// as that of a build which nobody gave a version.
func Versioned(s string) *version.Version {
	v, err := version.ParseSemantic(s)
	if err != nil || s == built.Unset || !strings.HasPrefix(s, "v") {
		return nil
	}
	return v
}

// agentUpdated tells what became of spec.agent; nil while it is unset.
func agentUpdated(h *infrav1.Host) *metav1.Condition {
	if h.Spec.Agent == nil {
		return nil
	}
	wanted, agent := *h.Spec.Agent, AgentOf(h)
	c := &metav1.Condition{Type: infrav1.AgentUpdatedCondition, Status: metav1.ConditionFalse}
	report := agent.ReportOn(wanted)
	told := report.Message
	if told != "" {
		told = ": " + told
	}
	switch agent.State(wanted) {
	case AgentUpdated:
		c.Status, c.Reason = metav1.ConditionTrue, infrav1.HostAgentUpdatedReason
	case AgentUpdateFailed:
		c.Reason = infrav1.HostAgentUpdateFailedReason
		c.Message = fmt.Sprintf("The agent tried %s and went back to %s%s. See journalctl -u slipway-agent on the host, then load a mended release by `slipway bundle load`: the agent does not try this one again",
			wanted.Version, agent.Version, told)
	default:
		c.Reason = infrav1.HostAgentUpdatingReason
		switch report.State {
		case infrav1.HostAgentUpdateTrying:
			c.Message = fmt.Sprintf("The agent tries %s%s", wanted.Version, told)
		case infrav1.HostAgentUpdateFetching:
			c.Message = fmt.Sprintf("The agent fetches %s%s", wanted.Version, told)
		default:
			c.Message = fmt.Sprintf("The agent was asked to update to %s and has not begun. If that lasts, see journalctl -u slipway-agent on the host", wanted.Version)
		}
	}
	return c
}
