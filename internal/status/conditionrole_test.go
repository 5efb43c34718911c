package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// A rollout, a scale-up or an evacuation that an operator wanted is not painted as a fault, and neither
// is a host in use for not being available.
func TestConditionRole(t *testing.T) {
	for kind, want := range map[string][3]Role{ // of True, False and Unknown, on an object that is well
		infrav1.HostClaimedCondition:       {OK, OK, Off},
		infrav1.AvailableCondition:         {OK, OK, Off},
		infrav1.ClockSkewedCondition:       {Bad, Off, Off},
		infrav1.DuplicateIdentityCondition: {Bad, Off, Off},
		infrav1.EvacuatingCondition:        {Work, Off, Off},
		clusterv1.RollingOutCondition:      {Work, Off, Off},
		clusterv1.ScalingUpCondition:       {Work, Off, Off},
		clusterv1.PausedCondition:          {Work, Off, Off},
	} {
		for i, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
			if got := ConditionRole(metav1.Condition{Type: kind, Status: status}, State{Role: OK}); got != want[i] {
				t.Errorf("%s is %s: role %q, want %q", kind, status, got, want[i])
			}
		}
	}
	if got := ConditionRole(metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse}, State{Role: Bad}); got != Bad {
		t.Errorf("Ready is False of what is bad: role %q", got)
	}
}
