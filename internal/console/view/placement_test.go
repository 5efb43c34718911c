package view

import (
	"fmt"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
)

func TestReasonsOfMostHostsComeFirst(t *testing.T) {
	v := PlacementOf(status.Placement{Hosts: []status.PlacementHost{
		{Name: "a", Fits: true, Reason: "score 1"}, {Name: "b", Reason: "is claimed", Remedy: "free b"}, {Name: "c", Reason: "has no label"}, {Name: "d", Reason: "is claimed", Remedy: "free d"}, {Name: "e", Reason: "away"},
	}}, 1)
	var funnel []string
	for _, r := range v.Reasons {
		funnel = append(funnel, fmt.Sprint(r.Hosts, " ", r.Why, ": ", r.Bar.Text, "; ", r.Help))
	}
	if want := []string{"2 is claimed: 3 of 5 left; free b", "1 away: 2 of 5 left; ", "1 has no label: 1 of 5 left; "}; !slices.Equal(funnel, want) || len(v.Shown) != 5 {
		t.Errorf("%q", funnel)
	}
}
