package effects_test

import (
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects"
)

func TestCandidate(t *testing.T) {
	bootstrapped := &journal.Operation{Phase: infrav1.HostDesiredBootstrapped}
	for name, c := range map[string]struct {
		state   journal.State
		leaving bool
	}{
		"bootstrapped":           {journal.State{ClaimGeneration: 3, ResidueGeneration: 3, Operation: bootstrapped}, false},
		"being reset":            {journal.State{ClaimGeneration: 3, ResidueGeneration: 3, Operation: &journal.Operation{Phase: infrav1.HostDesiredReset}}, true},
		"reset before a retry":   {journal.State{ClaimGeneration: 3, ResidueGeneration: 3, Operation: &journal.Operation{Phase: infrav1.HostDesiredBootstrapped, ResetFirst: true}}, true},
		"left by an older claim": {journal.State{ClaimGeneration: 4, ResidueGeneration: 3, Operation: bootstrapped}, true},
	} {
		c.state.VirtualIP = "10.0.0.200"
		got := effects.Candidate("h", c.state)
		if got.Leaving != c.leaving || got.Identity != "h_3" || got.Address.String() != "10.0.0.200" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	init := func(change func(*journal.Operation)) journal.State {
		op := &journal.Operation{Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationRunning, Active: true, InitializesControlPlane: true}
		change(op)
		return journal.State{ClaimGeneration: 3, ResidueGeneration: 3, VirtualIP: "10.0.0.200", Operation: op}
	}
	for name, c := range map[string]struct {
		change func(*journal.Operation)
		want   bool
	}{
		"makes the control plane": {func(*journal.Operation) {}, true},
		"joins":                   {func(o *journal.Operation) { o.InitializesControlPlane = false }, false},
		"has ended":               {func(o *journal.Operation) { o.State = infrav1.OperationSucceeded }, false},
		"has failed":              {func(o *journal.Operation) { o.State = infrav1.OperationFailed }, false},
		"waits for another try":   {func(o *journal.Operation) { o.Active = false }, false},
		"resets before a retry":   {func(o *journal.Operation) { o.ResetFirst = true }, false},
	} {
		if got := effects.Candidate("h", init(c.change)); got.Initializes != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := effects.Candidate("h", journal.State{}); got.Address.IsValid() {
		t.Errorf("a host without an address is a candidate: %+v", got)
	}
}
