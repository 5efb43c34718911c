package capi

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"

	"github.com/slipway-dev/slipway/internal/doctor"
)

// Core reports a refused eviction in the text of a condition only. Doctor must recognise it in the
// text of the core that the plane is built with.
func TestDoctorReadsCoresMessages(t *testing.T) {
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}}}
	failed := func(message string) drain.EvictionResult {
		return drain.EvictionResult{PodsFailedEviction: map[string][]*corev1.Pod{message: pods}}
	}
	for name, c := range map[string]struct {
		drain drain.EvictionResult
		want  int
	}{
		"budget":        {failed("Cannot evict pod as it would violate the pod's disruption budget. The disruption budget db needs 1 healthy pods and has 1 currently"), 1},
		"two budgets":   {failed("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."), 1},
		"webhook":       {failed(`admission webhook "evictions.example.com" denied the request`), 1},
		"terminates":    {drain.EvictionResult{PodsDeletionTimestampSet: pods}, 0},
		"to complete":   {drain.EvictionResult{PodsToWaitCompletedNow: pods}, 0},
		"evicted later": {drain.EvictionResult{PodsToTriggerEvictionLater: pods}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			since := metav1.NewTime(now.Add(-6 * time.Minute))
			m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m", DeletionTimestamp: &since}}
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: since}
			m.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingDrainingNodeReason,
				Message: c.drain.ConditionMessage(since), LastTransitionTime: since,
			}}
			s := &doctor.Snapshot{Now: now}
			s.Machines = []clusterv1.Machine{m}
			if found := doctor.Diagnose(s).Findings; len(found) != c.want {
				t.Errorf("message %q: %+v, want %d findings", m.Status.Conditions[0].Message, found, c.want)
			}
		})
	}
}
