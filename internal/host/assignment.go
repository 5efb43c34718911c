package host

import (
	"fmt"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Leaving says whether a Host goes to another namespace once it is free, as
// spec.assignedNamespace says.
func Leaving(h *infrav1.Host) bool {
	return h.Spec.AssignedNamespace != "" && h.Spec.AssignedNamespace != h.Namespace
}

// Successor says whether a Host is the one that the agent of h goes over to: of the same
// name and key, in the namespace that h is assigned to.
func Successor(h, other *infrav1.Host) bool {
	return Leaving(h) && other.Namespace == h.Spec.AssignedNamespace && other.Name == h.Name &&
		h.Spec.HostID != "" && other.Spec.HostID == h.Spec.HostID
}

// leavingState is that of a free host that leaves.
func leavingState(h *infrav1.Host) State {
	return State{infrav1.HostPhaseAvailable, infrav1.HostAssignedReason, fmt.Sprintf("spec.assignedNamespace gives the host to namespace %s: its agent goes over to Host %s/%s, "+
		"which must have the same spec.hostID, and `slipway host assign %s -n %s --to %s` deletes this Host then",
		h.Spec.AssignedNamespace, h.Spec.AssignedNamespace, h.Name, h.Name, h.Namespace, h.Spec.AssignedNamespace)}
}
