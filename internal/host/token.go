package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TokenUses is how many machines a bootstrap token enrolls, and whom it has enrolled.
type TokenUses struct {
	// Limit is the number of machines.
	Limit int
	// UsedBy are the user names of the agents, in the order they came.
	UsedBy []string
}

// ParseTokenUses reads the annotations of a token's Secret. limited is false when the token
// has no limit.
func ParseTokenUses(annotations map[string]string) (_ TokenUses, limited bool, _ error) {
	value, limited := annotations[infrav1.TokenUsesAnnotation]
	if !limited {
		return TokenUses{}, false, nil
	}
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 0 || limit > infrav1.MaxTokenUses {
		return TokenUses{}, true, fmt.Errorf("annotation %s must be a number from 0 to %d, not %.20q", infrav1.TokenUsesAnnotation, infrav1.MaxTokenUses, value)
	}
	return TokenUses{Limit: limit, UsedBy: strings.Fields(annotations[infrav1.TokenUsedByAnnotation])}, true, nil
}

// Counts says whether the agent was counted.
func (u TokenUses) Counts(user string) bool { return slices.Contains(u.UsedBy, user) }

// Exhausted says whether the token enrolls nobody else.
func (u TokenUses) Exhausted() bool { return len(u.UsedBy) >= u.Limit }

// With is the value of TokenUsedByAnnotation once one more agent is counted.
func (u TokenUses) With(user string) string {
	return strings.Join(append(slices.Clone(u.UsedBy), user), " ")
}
