package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func TestTenantOf(t *testing.T) {
	owner := func(version, kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name}
	}
	group := infrav1.GroupVersion.Group
	machine := owner("cluster.x-k8s.io/v1beta2", "Machine", "m")
	for name, tc := range map[string]struct {
		owners   []metav1.OwnerReference
		change   func(*infrav1.HostMachine)
		want     Tenant
		wantPool string
	}{
		"of a Machine":         {owners: []metav1.OwnerReference{machine}, want: TenantStays},
		"of nobody":            {want: TenantStays},
		"of a pool":            {owners: []metav1.OwnerReference{machine, owner(group+"/v1beta2", "HostMachinePool", "p")}, want: TenantOfPool, wantPool: "p"},
		"of an older version":  {owners: []metav1.OwnerReference{owner(group+"/v1beta1", "HostMachinePool", "p")}, want: TenantOfPool, wantPool: "p"},
		"of another provider":  {owners: []metav1.OwnerReference{owner("example.com/v1", "HostMachinePool", "p")}, want: TenantStays},
		"of another kind":      {owners: []metav1.OwnerReference{owner(group+"/v1beta2", "HostCluster", "p")}, want: TenantStays},
		"of an invalid object": {owners: []metav1.OwnerReference{owner(group+"/v1/v2", "HostMachinePool", "p")}, want: TenantStays},
		"of a pool, leaving": {
			owners: []metav1.OwnerReference{owner(group+"/v1beta2", "HostMachinePool", "p")},
			change: func(m *infrav1.HostMachine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0))) }, want: TenantLeaves, wantPool: "p",
		},
		"with another claim": {change: func(m *infrav1.HostMachine) { m.Spec.ClaimID = "other" }, want: TenantGone},
	} {
		h := &infrav1.Host{Spec: infrav1.HostSpec{Claim: &infrav1.HostClaim{ClaimID: "claim"}}}
		m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}, Spec: infrav1.HostMachineSpec{ClaimID: "claim"}}
		if tc.change != nil {
			tc.change(m)
		}
		if got := TenantOf(h, m); got != tc.want {
			t.Errorf("%s: tenant %d, want %d", name, got, tc.want)
		}
		if got := PoolOf(m); (got == nil) != (tc.wantPool == "") || got != nil && got.Name != tc.wantPool {
			t.Errorf("%s: pool %+v, want %q", name, got, tc.wantPool)
		}
		if got := TenantOf(&infrav1.Host{}, m); got != TenantGone {
			t.Errorf("%s: tenant of a host without a claim is %d", name, got)
		}
		if got := TenantOf(h, nil); got != TenantGone {
			t.Errorf("%s: without a HostMachine the tenant is %d", name, got)
		}
	}
}
