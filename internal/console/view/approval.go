package view

import (
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	hosts "github.com/slipway-dev/slipway/internal/host"
)

// Approval is a host that somebody approves, and by what the machine is known.
type Approval struct {
	Namespace, Name string
	// Waits says that the host is not approved: nobody decided yet, or somebody denied it.
	Waits bool
	// Denied says that somebody denied it.
	Denied bool
	// Seen is what the approval is for.
	Seen change.Seen
	// Facts are what the machine has told of itself.
	Facts []Fact
}

// ApprovalOf shows a host to who approves it.
func ApprovalOf(h *infrav1.Host) Approval {
	return Approval{
		Namespace: h.Namespace, Name: h.Name, Waits: !hosts.Approved(h), Denied: h.Spec.Approval == infrav1.HostApprovalDenied,
		Seen: change.Of(h), Facts: factsOf(h),
	}
}
