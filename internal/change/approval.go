package change

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Seen is what somebody has seen of a Host who approves it.
type Seen struct {
	// UID of the Host.
	UID types.UID
	// HostID of the machine that enrolled as it; empty before it did.
	HostID string
	// MachineID that the machine reports; empty before it did.
	MachineID string
	// Approval is what was decided by then.
	Approval infrav1.HostApproval
}

// Of is what there is to see of a Host.
func Of(h *infrav1.Host) Seen {
	return Seen{UID: h.UID, HostID: h.Spec.HostID, MachineID: h.Status.Inventory.MachineID, Approval: h.Spec.Approval}
}

// ChangedError is returned for a Host that is not what was seen any more.
type ChangedError struct {
	// Before is what was seen, Now what there is.
	Before, Now Seen
}

func (e *ChangedError) Error() string {
	if machine(e.Before) != machine(e.Now) {
		return "another machine has this name now: look at it, and approve it if it is yours"
	}
	return fmt.Sprintf("it is %s by now, and was %s when you looked at it: find out why before you approve it", told(e.Now), told(e.Before))
}

func told(s Seen) string {
	if s.Approval == "" {
		return "without a decision"
	}
	return string(s.Approval)
}

// machine is what was seen besides the decision.
func machine(s Seen) Seen {
	s.Approval = ""
	return s
}

// Approve approves a Host as it was seen, and returns it. It overrides nobody who decided
// since, and approves no machine that came to the name: either is a ChangedError. A Host that
// is approved already is left as it is. It takes the verbs get, patch and approve on hosts.
func Approve(ctx context.Context, c client.Client, key client.ObjectKey, seen Seen) (*infrav1.Host, error) {
	var h *infrav1.Host
	// The status of a host changes all the time, and with it the resourceVersion: that alone
	// is no reason to refuse.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		h = &infrav1.Host{}
		if err := c.Get(ctx, key, h); err != nil {
			return err
		}
		now := Of(h)
		switch {
		case machine(now) == machine(seen) && now.Approval == infrav1.HostApprovalApproved:
			return nil
		case now != seen:
			return &ChangedError{Before: seen, Now: now}
		}
		return decide(ctx, c, h, infrav1.HostApprovalApproved)
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Deny has nothing claim a Host. It takes the verbs get, patch and approve on hosts.
func Deny(ctx context.Context, c client.Writer, h *infrav1.Host) error {
	return decide(ctx, c, h, infrav1.HostApprovalDenied)
}

func decide(ctx context.Context, c client.Writer, h *infrav1.Host, approval infrav1.HostApproval) error {
	before := h.DeepCopy()
	h.Spec.Approval = approval
	return patch(ctx, c, h, before)
}
