package pool_test

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
)

// TestObserve changes one thing of a HostMachine or of its Machine, and looks at what a member has of it.
func TestObserve(t *testing.T) {
	gone := ptr.To(metav1.NewTime(now))
	says := func(kind string, status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: reason}}
	}
	attempt := pool.Attempt{Step: 1, Action: rebootstrap, Since: now, Replaces: "a"}
	for name, tc := range map[string]struct {
		change func(m *infrav1.HostMachine, machine *clusterv1.Machine)
		want   func(m *pool.Member)
	}{
		"nothing": {func(*infrav1.HostMachine, *clusterv1.Machine) {}, func(*pool.Member) {}},
		"claimed": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) { m.Spec.ProviderID = "p" }, func(m *pool.Member) { m.Claimed = true }},
		"pinned":  {func(m *infrav1.HostMachine, _ *clusterv1.Machine) { m.Spec.HostName = "h" }, func(m *pool.Member) { m.Pinned = true }},
		"spread":  {func(m *infrav1.HostMachine, _ *clusterv1.Machine) { m.Spec.Spread = &infrav1.SpreadDomain{Value: "x"} }, func(m *pool.Member) { m.Domain = "x" }},
		"deleted": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) { m.DeletionTimestamp = gone }, func(m *pool.Member) { m.Leaving = true }},
		"drained": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) { m.DeletionTimestamp = gone }, func(m *pool.Member) { m.Leaving, m.MachineLeaving = true, true }},
		"replaces": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Annotations = map[string]string{infrav1.ReplacesAnnotation: "b"}
		}, func(m *pool.Member) { m.Replaces = "b" }},
		"revision": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Labels = map[string]string{infrav1.RevisionLabel: "r"}
		}, func(m *pool.Member) { m.Revision = "r" }},
		"provisioned": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Status.Initialization.Provisioned = ptr.To(true)
		}, func(m *pool.Member) { m.Provisioned = true }},
		"upgrading": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) { m.Spec.Version, m.Status.Version = "v2", "v1" }, func(m *pool.Member) { m.Version, m.Upgrading = "v2", true }},
		"upgraded":  {func(m *infrav1.HostMachine, _ *clusterv1.Machine) { m.Spec.Version, m.Status.Version = "v2", "v2" }, func(m *pool.Member) { m.Version = "v2" }},
		"marked": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
		}, func(m *pool.Member) { m.Marked = true }},
		"skipped": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: ""}
		}, func(m *pool.Member) { m.Skipped = true }},
		"skipped while it waits": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.MachineSkipRemediationAnnotation: infrav1.WaitingForHostMark}
		}, func(*pool.Member) {}},
		"evacuating": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Status.Conditions = says(infrav1.EvacuatingCondition, metav1.ConditionTrue, "R")
		}, func(m *pool.Member) { m.Evacuate = true }},
		"bootstrap failed": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Status.Conditions = says(infrav1.BootstrapSucceededCondition, metav1.ConditionFalse, infrav1.BootstrapFailedReason)
		}, func(m *pool.Member) { m.Failed = true }},
		"upgrade failed": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Status.Conditions = says(infrav1.UpToDateCondition, metav1.ConditionFalse, infrav1.UpgradeFailedReason)
		}, func(m *pool.Member) { m.Failed = true }},
		"reboot failed": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Status.Conditions = says(infrav1.RebootedCondition, metav1.ConditionFalse, infrav1.HostMachineRebootFailedReason)
		}, func(m *pool.Member) { m.RebootFailed = true }},
		"available": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Status.Conditions = says(clusterv1.AvailableCondition, metav1.ConditionTrue, "R")
		}, func(m *pool.Member) { m.Available = true }},
		"healthy": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Status.Conditions = says(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionTrue, "R")
		}, func(m *pool.Member) { m.Health = pool.Healthy }},
		"failing": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Status.Conditions = says(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse, "R")
		}, func(m *pool.Member) { m.Health = pool.Failing }},
		"unhealthy": {func(_ *infrav1.HostMachine, m *clusterv1.Machine) {
			m.Status.Conditions = append(says(clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse, "R"), says(clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse, "R")...)
		}, func(m *pool.Member) { m.Health = pool.Unhealthy }},
		"tried, in the place of itself": {func(m *infrav1.HostMachine, _ *clusterv1.Machine) {
			m.Annotations = map[string]string{infrav1.RemediationAnnotation: attempt.String()}
		}, func(m *pool.Member) { m.Attempt, m.Replaced = &attempt, true }},
	} {
		m := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
		machine := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
		machine.Spec.InfrastructureRef.Name = "a"
		tc.change(&m, &machine)
		want := pool.Member{Name: "a", HostMachine: true, Machine: true, Health: pool.HealthUnknown, Created: now.Add(-time.Hour)}
		tc.want(&want)
		if got := pool.Observe([]infrav1.HostMachine{m}, []clusterv1.Machine{machine}); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s: %+v\nwant %+v", name, got, want)
		}
	}
	alone := pool.Observe([]infrav1.HostMachine{{ObjectMeta: metav1.ObjectMeta{Name: "b"}}}, []clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{Name: "m"}}})
	if len(alone) != 2 || alone[0].Machine || alone[0].Health != pool.HealthUnknown || alone[1].HostMachine || alone[1].Name != "m" {
		t.Errorf("without the other one: %+v", alone)
	}
}
