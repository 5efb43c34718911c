package view

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/status"
)

// Condition is one condition of an object.
type Condition struct {
	Type, Status, Reason, Message string
	Since                         time.Time
	// Role says how it is to be taken.
	Role status.Role
}

// ConditionsOf has Ready first and then the others by name, of an object in a state.
func ConditionsOf(conditions []metav1.Condition, of status.State) []Condition {
	var out []Condition
	for _, c := range conditions {
		out = append(out, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.UTC(), Role: status.ConditionRole(c, of)})
	}
	slices.SortFunc(out, func(a, b Condition) int {
		if ready := one(b.Type == "Ready") - one(a.Type == "Ready"); ready != 0 {
			return ready
		}
		return strings.Compare(a.Type, b.Type)
	})
	return out
}
