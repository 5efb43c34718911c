package host

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Adopting says whether the claim is for a node that runs on the host already, and the
// node is not known to have been adopted. Until then it is somebody else's: the end of
// the claim must leave it as it is.
func Adopting(h *infrav1.Host) bool {
	return h.Spec.Claim != nil && ptr.Deref(h.Spec.Claim.Adopt, false) && !Bootstrapped(h) && !Releasing(h)
}

// AdoptionRefused says whether the agent refused, for good, to adopt the node.
func AdoptionRefused(h *infrav1.Host) bool {
	op := Observed(h)
	return Adopting(h) && op != nil && op.State == infrav1.OperationFailed
}

// Withdraw ends a claim on a node that was not adopted, and returns false for any
// other. No reset is requested, and no clean proof needed: nothing was done to the host.
// An agent that is adopting undoes what it began.
func Withdraw(h *infrav1.Host) bool {
	if !Adopting(h) {
		return false
	}
	h.Spec.Claim, h.Spec.Desired = nil, nil
	BlockMove(h, false)
	return true
}

// Unadoptable returns why nobody may claim the host now to adopt its node; the zero
// State when it may be tried. What only the host itself can tell, such as the cluster
// its node is of, the agent judges.
func Unadoptable(h *infrav1.Host, connected bool) State {
	state := StateOf(h)
	no := func(reason, format string, args ...any) State {
		return State{state.Phase, reason, "Host " + h.Name + " " + fmt.Sprintf(format, args...)}
	}
	switch {
	case !h.DeletionTimestamp.IsZero():
		return no(infrav1.HostDeletingReason, "is being deleted")
	case h.Spec.Claim != nil:
		return no(infrav1.HostMachineHostTakenReason, "is claimed by HostMachine %s of Cluster %s", h.Spec.Claim.MachineName, h.Spec.Claim.ClusterName)
	case ProvedClean(h):
		return no(infrav1.HostMachineNothingToAdoptReason, "is clean: there is no node to adopt. If one joined since the agent looked, restart slipway-agent on the host")
	case HookPending(h):
		return no(infrav1.HostWaitingForHookReason, "is held back by the hook AfterHostRelease; its condition %s tells why", infrav1.ReleaseHooksPassedCondition)
	case state.Reason != infrav1.HostAdoptionRefusedReason:
		return no(state.Reason, "tells of no node to adopt: %s", state.Message)
	case Leaving(h):
		return no(infrav1.HostAssignedReason, "goes to namespace %s, as spec.assignedNamespace says", h.Spec.AssignedNamespace)
	case !connected:
		return no(infrav1.HostAgentNotConnectedReason, "has no connected agent; start slipway-agent on it")
	case !Approved(h):
		return notApproved(h)
	case ptr.Deref(h.Spec.Unschedulable, false):
		return no(infrav1.HostUnschedulableReason, "has spec.unschedulable set")
	case ptr.Deref(h.Spec.Evacuate, false):
		return no(infrav1.HostEvacuateReason, "has spec.evacuate set")
	}
	return refused(h)
}

// Tenant is what is known of the machine that has claimed a host.
type Tenant int

const (
	// TenantStays is a machine that nobody replaces by itself.
	TenantStays Tenant = iota
	// TenantOfPool is one that its pool replaces once its host is evacuated.
	TenantOfPool
	// TenantLeaves is being deleted.
	TenantLeaves
	// TenantGone has no HostMachine any more, or one with another claim.
	TenantGone
)

// TenantOf judges the HostMachine that the claim of a host names; nil when there is none.
func TenantOf(h *infrav1.Host, m *infrav1.HostMachine) Tenant {
	switch {
	case m == nil || h.Spec.Claim == nil || m.Spec.ClaimID != h.Spec.Claim.ClaimID:
		return TenantGone
	case !m.DeletionTimestamp.IsZero():
		return TenantLeaves
	case PoolOf(m) != nil:
		return TenantOfPool
	}
	return TenantStays
}

// PoolOf returns the reference to the HostMachinePool that owns an object; nil without one.
func PoolOf(o metav1.Object) *metav1.OwnerReference {
	owners := o.GetOwnerReferences()
	if i := slices.IndexFunc(owners, IsPool); i >= 0 {
		return &owners[i]
	}
	return nil
}

// IsPool reports whether an owner is a HostMachinePool, in whatever version of the API.
func IsPool(owner metav1.OwnerReference) bool {
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == infrav1.GroupVersion.Group && owner.Kind == "HostMachinePool"
}
