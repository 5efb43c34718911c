package chaos

import (
	"testing"
)

// The table of faults is whole: what is undone can be, names are told apart, and each is
// injected within an hour.
func TestFaults(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, f := range faults {
		if names[f.Name] {
			t.Errorf("two faults are called %q", f.Name)
		}
		names[f.Name] = true
		if f.apply == nil || f.Draw == nil || (f.undo != nil) != (f.Longest > 0) {
			t.Errorf("%q lacks an effect, or is undone and has no time for it", f.Name)
		}
	}
	plan := NewPlan(1, kinds(""), begin())
	for range 60 {
		for _, s := range plan.Round(faultsPerRound) {
			delete(names, s.Name)
		}
	}
	for name := range names {
		t.Errorf("%q never happens", name)
	}
}

// What is left out never happens, and all else does.
func TestWithout(t *testing.T) {
	t.Parallel()
	plan, seen := NewPlan(1, kinds("kill the plane"), begin()), map[string]bool{}
	for range 60 {
		for _, s := range plan.Round(faultsPerRound) {
			seen[s.Name] = true
		}
	}
	if seen["kill the plane"] || len(seen) != len(faults)-1 {
		t.Errorf("without the death of the plane there are %v", seen)
	}
}

// Whatever is drawn, there is a host for each machine that is asked for, and one to spare.
func TestPlansFitTheHosts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		plan := NewPlan(seed, kinds(""), begin())
		for range 20 {
			steps := plan.Round(faultsPerRound)
			s := plan.State
			if s.Spare() < 0 || s.Pool < 0 || s.Deployment < 0 {
				t.Fatalf("seed %d: %+v has no host to spare after %v", seed, s, steps)
			}
			for _, host := range s.Hosts {
				if !s.Free(host) {
					t.Fatalf("seed %d: %s is held between two rounds", seed, host)
				}
			}
		}
	}
}
