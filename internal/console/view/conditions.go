package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/status"
)

// Condition is one condition of an object.
type Condition struct {
	Type, Status, Reason string
	// Lines are its message, without the marks of a list.
	Lines []string
	Since time.Time
	// Role says how it is to be taken.
	Role status.Role
}

// Conditions are those of an object.
type Conditions struct {
	// Unexpected are those that are not as they should be or change, the latest first; Expected
	// are the others, by name.
	Unexpected, Expected []Condition
}

// ConditionsOf are the conditions of an object in a state.
func ConditionsOf(conditions []metav1.Condition, of status.State) Conditions {
	var all Conditions
	for _, c := range conditions {
		v := Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Lines: linesOf(c.Message), Since: c.LastTransitionTime.UTC(), Role: status.ConditionRole(c, of)}
		if v.Role == status.OK || v.Role == status.Free || v.Role == status.Off {
			all.Expected = append(all.Expected, v)
		} else {
			all.Unexpected = append(all.Unexpected, v)
		}
	}
	slices.SortFunc(all.Unexpected, func(a, b Condition) int {
		return cmp.Or(cmp.Compare(slices.Index(roleOrder, a.Role), slices.Index(roleOrder, b.Role)), b.Since.Compare(a.Since), strings.Compare(a.Type, b.Type))
	})
	slices.SortFunc(all.Expected, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	return all
}

// linesOf are the lines of a message, which Cluster API marks as a list.
func linesOf(message string) []string {
	var lines []string
	for line := range strings.Lines(message) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "* "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
