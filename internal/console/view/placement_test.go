package view

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
)

func TestReasonsOfMostHostsComeFirst(t *testing.T) {
	v := PlacementOf(status.Placement{Hosts: []status.PlacementHost{
		{Name: "a", Fits: true, Reason: "score 1"}, {Name: "b", Reason: "is claimed"}, {Name: "c", Reason: "has no label"}, {Name: "d", Reason: "is claimed"}, {Name: "e", Reason: "away"},
	}}, 1)
	if want := []Reason{{2, "is claimed"}, {1, "away"}, {1, "has no label"}}; !slices.Equal(v.Reasons, want) || len(v.Shown) != 5 {
		t.Errorf("%+v", v)
	}
}
