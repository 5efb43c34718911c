package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Approved says whether the host may be claimed, as far as approval goes.
func Approved(h *infrav1.Host) bool {
	return h.Spec.Approval == "" || h.Spec.Approval == infrav1.HostApprovalApproved
}

// Approval is what a policy makes of the approval of a host that enrolls or is Pending;
// nil is a namespace without one. A decision stands. Neither does a policy that is gone
// approve what it held back.
func Approval(h *infrav1.Host, policy *infrav1.HostApprovalPolicy) infrav1.HostApproval {
	switch current := h.Spec.Approval; {
	case current == infrav1.HostApprovalApproved, current == infrav1.HostApprovalDenied:
		return current
	case policy == nil && current == "", policy != nil && approves(policy.Spec, h):
		return infrav1.HostApprovalApproved
	default:
		return infrav1.HostApprovalPending
	}
}

func approves(policy infrav1.HostApprovalPolicySpec, h *infrav1.Host) bool {
	switch policy.Mode {
	case infrav1.HostApprovalAuto:
		return true
	case infrav1.HostApprovalMatch:
		return slices.ContainsFunc(policy.Hosts, func(m infrav1.HostMatch) bool { return fits(m, h) })
	default:
		return false
	}
}

// fits is false for a match without any field, which admission refuses.
func fits(m infrav1.HostMatch, h *infrav1.Host) bool {
	agrees := func(wanted, is string) bool { return wanted == "" || wanted == is }
	return m != (infrav1.HostMatch{}) && agrees(m.Name, h.Name) && agrees(m.HostID, h.Spec.HostID) && agrees(m.MachineID, h.Status.Inventory.MachineID)
}

// ApproveCommand is the command that approves the host.
func ApproveCommand(h *infrav1.Host) string {
	return fmt.Sprintf("slipway host approve %s -n %s", h.Name, h.Namespace)
}

// notApproved is the state of a host that nobody may claim for want of an approval.
func notApproved(h *infrav1.Host) State {
	if h.Spec.Approval == infrav1.HostApprovalDenied {
		return State{infrav1.HostPhaseEnrolling, infrav1.HostApprovalDeniedReason,
			"Somebody denied the host (spec.approval). Delete the Host to be rid of it; to use it after all: " + ApproveCommand(h)}
	}
	return State{infrav1.HostPhaseEnrolling, infrav1.HostNotApprovedReason,
		fmt.Sprintf("The host is not approved, which the HostApprovalPolicy of namespace %s asks for; approve with: %s", h.Namespace, ApproveCommand(h))}
}

// TokenUses is how many machines a bootstrap token enrolls, and whom it has enrolled.
type TokenUses struct {
	// Limit is the number of machines.
	Limit int
	// UsedBy are the user names of the agents, the first one first.
	UsedBy []string
}

// ParseTokenUses reads the annotations of a token's Secret. limited is false when the token
// has no limit.
func ParseTokenUses(annotations map[string]string) (_ TokenUses, limited bool, _ error) {
	value, limited := annotations[infrav1.TokenUsesAnnotation]
	if !limited {
		return TokenUses{}, false, nil
	}
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 0 || limit > infrav1.MaxTokenUses {
		return TokenUses{}, true, fmt.Errorf("annotation %s must be a number from 0 to %d, not %.20q", infrav1.TokenUsesAnnotation, infrav1.MaxTokenUses, value)
	}
	return TokenUses{Limit: limit, UsedBy: strings.Fields(annotations[infrav1.TokenUsedByAnnotation])}, true, nil
}

// Counts says whether the agent was counted.
func (u TokenUses) Counts(user string) bool { return slices.Contains(u.UsedBy, user) }

// Exhausted says whether the token enrolls nobody else.
func (u TokenUses) Exhausted() bool { return len(u.UsedBy) >= u.Limit }

// With is the value of TokenUsedByAnnotation once one more agent is counted.
func (u TokenUses) With(user string) string {
	return strings.Join(append(slices.Clone(u.UsedBy), user), " ")
}
