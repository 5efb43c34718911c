package host

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

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
