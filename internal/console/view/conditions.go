package view

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// Condition is one condition of an object.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
	// Tone is "good", "bad" or "" for what is neither.
	Tone string
}

// faults are the conditions that are bad while True, progress those that are neither.
var (
	faults   = []string{infrav1.DuplicateIdentityCondition, infrav1.ClockSkewedCondition}
	progress = []string{
		infrav1.EvacuatingCondition, clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RemediatingCondition,
		clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.RollingOutCondition,
	}
)

// ConditionsOf has Ready first and then the others by name.
func ConditionsOf(conditions []metav1.Condition) []Condition {
	var out []Condition
	for _, c := range conditions {
		out = append(out, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC(), Tone: tone(c)})
	}
	slices.SortFunc(out, func(a, b Condition) int {
		if ready := one(b.Type == "Ready") - one(a.Type == "Ready"); ready != 0 {
			return ready
		}
		return strings.Compare(a.Type, b.Type)
	})
	return out
}

func tone(c metav1.Condition) string {
	switch {
	case slices.Contains(progress, c.Type):
		return ""
	case slices.Contains(faults, c.Type):
		if c.Status == metav1.ConditionTrue {
			return "bad"
		}
		return ""
	case c.Status == metav1.ConditionTrue:
		return "good"
	case c.Status == metav1.ConditionFalse:
		return "bad"
	}
	return ""
}
