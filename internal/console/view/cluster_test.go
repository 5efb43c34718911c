package view

import (
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/status"
)

// What a trouble at the top of a page says is not among the reasons to wait once more.
func TestUntold(t *testing.T) {
	troubles := []Trouble{{State: status.State{Cause: "HostMachine w-1: No host available: 4 claimed"}}}
	got := untold([]string{"w-1: No host available: 4 claimed", "w-2: the node is not ready", "a hook answers"}, troubles)
	if want := []string{"w-2: the node is not ready", "a hook answers"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
