package view

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// A rollout, a scale-up or an evacuation that an operator wanted is not painted as a fault.
func TestToneOfConditions(t *testing.T) {
	for kind, want := range map[string][3]string{ // of True, False and Unknown
		infrav1.HostClaimedCondition:       {"good", "bad", ""},
		infrav1.ClockSkewedCondition:       {"bad", "", ""},
		infrav1.DuplicateIdentityCondition: {"bad", "", ""},
		infrav1.EvacuatingCondition:        {"", "", ""},
		clusterv1.RollingOutCondition:      {"", "", ""},
		clusterv1.ScalingUpCondition:       {"", "", ""},
		clusterv1.PausedCondition:          {"", "", ""},
	} {
		for i, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			if got := tone(metav1.Condition{Type: kind, Status: status}); got != want[i] {
				t.Errorf("%s is %s: tone %q, want %q", kind, status, got, want[i])
			}
		}
	}
}
