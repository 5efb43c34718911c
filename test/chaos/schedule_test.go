package chaos

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

const somePlane = "the plane"

// planned are one that is undone, one that holds a part, and one that is done at once.
var planned = []Kind{
	{Name: "cut", Fits: func(s *State) bool { return len(s.FreeHosts()) > 0 }, Draw: drawHost, Longest: 30 * time.Second},
	{Name: "kill", Draw: func(*rand.Rand, *State) Arguments { return Arguments{} }, Holds: somePlane, Longest: 10 * time.Second},
	{Name: "cycle", Fits: func(s *State) bool { return len(s.FreeHosts()) > 0 }, Draw: drawHost},
	{Name: "pause", Draw: func(*rand.Rand, *State) Arguments { return Arguments{} }, Needs: somePlane, Holds: "the cluster", Longest: 10 * time.Second},
	{Name: "scale", Needs: somePlane, Draw: func(r *rand.Rand, s *State) Arguments {
		s.Pool = r.IntN(s.Pool + s.Spare() + 1)
		return Arguments{Value: s.Pool}
	}},
}

func drawHost(r *rand.Rand, s *State) Arguments {
	free := s.FreeHosts()
	return Arguments{Host: free[r.IntN(len(free))]}
}

func rounds(seed uint64) [][]Step {
	p := NewPlan(seed, planned, State{Hosts: []string{"a", "b", "c", "d"}, Pool: 1})
	return [][]Step{p.Round(12), p.Round(12), p.Round(12)}
}

func TestTheSameSeedIsTheSamePlan(t *testing.T) {
	t.Parallel()
	if !reflect.DeepEqual(rounds(7), rounds(7)) {
		t.Error("one seed makes two plans")
	}
	if reflect.DeepEqual(rounds(7), rounds(8)) {
		t.Error("two seeds make one plan")
	}
}

func TestEachRoundUndoesWhatItInjects(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		for _, steps := range rounds(seed) {
			held := map[string]int{}
			injected := 0
			for _, s := range steps {
				what := s.Host
				if planned[s.Kind].Holds != "" {
					what = planned[s.Kind].Holds
				}
				switch {
				case planned[s.Kind].Needs == somePlane && held[somePlane] != 0:
					t.Fatalf("seed %d: %s without a plane", seed, s)
				case s.Undo && held[what] != s.Number+1:
					t.Fatalf("seed %d: %s, which was not injected", seed, s)
				case s.Undo:
					delete(held, what)
					continue
				case what != "" && held[what] != 0:
					t.Fatalf("seed %d: %s, though another fault holds %s", seed, s, what)
				case s.After < 0:
					t.Fatalf("seed %d: %s is before the step before", seed, s)
				}
				injected++
				if planned[s.Kind].Longest > 0 {
					held[what] = s.Number + 1
				}
			}
			if len(held) > 0 || injected != 12 {
				t.Fatalf("seed %d: %d faults, of which %v are not undone", seed, injected, held)
			}
		}
	}
}
