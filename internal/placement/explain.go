package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/text"
)

// maxNamed is how many hosts a reason names before it counts the rest: a
// condition must stay readable with thousands of hosts.
const maxNamed = 3

// maxReasons is how many reasons are listed; the rest is counted.
const maxReasons = 6

// Explain tells in one line why no host was chosen, the most frequent reason
// first: "No host available: 2 claimed (host-1, host-2); 1 agent not connected (host-3)".
func (r Result) Explain() string {
	if len(r.Rejected) == 0 {
		return "No host available: this namespace has none. Add one: `slipway host add`"
	}
	byReason, remedies := map[string][]string{}, map[string]string{}
	for _, rejected := range r.Rejected {
		byReason[rejected.Reason] = append(byReason[rejected.Reason], rejected.Host.Name)
		if rejected.Remedy != "" && remedies[rejected.Reason] == "" {
			remedies[rejected.Reason] = "; " + rejected.Remedy
		}
	}
	reasons := make([]string, 0, len(byReason))
	for reason := range byReason {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byReason[b]), len(byReason[a])), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(reasons))
	others := 0
	for i, reason := range reasons {
		if i >= maxReasons {
			others += len(byReason[reason])
			continue
		}
		count := strconv.Itoa(len(byReason[reason]))
		if len(byReason) == 1 && len(r.Rejected) > 1 {
			count = "all " + count
		}
		parts = append(parts, fmt.Sprintf("%s %s (%s%s)", count, reason, text.List(byReason[reason], maxNamed), remedies[reason]))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d for other reasons", others))
	}
	return "No host available: " + strings.Join(parts, "; ")
}
