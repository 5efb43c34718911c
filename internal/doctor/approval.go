package doctor

import (
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Enrollment + 4,
	Name:   "HostNotApproved",
	Effect: Decision,
	Means:  "a host waits for an approval, or was denied and not deleted",
	Remedy: "Verify by its hostID that it is the machine you expect, then approve it. Delete a Host that you do not want.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if host.Approved(h) {
				return none()
			}
			if h.Spec.Approval == infrav1.HostApprovalDenied {
				f := atHost(h, Note)
				f.Message = "somebody denied the host, and it is still there"
				return f.next("kubectl delete %s -n %s", f.Object.Resource(), h.Namespace), true
			}
			f := atHost(h, Warning).since(h.CreationTimestamp.Time)
			f.Next = host.ApproveCommand(h)
			f.Message = "the host enrolled and is not approved; its hostID is " + h.Spec.HostID
			return f, true
		})
	},
})
