package sample

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// Every case has its turn with some seed, none comes twice in a sample, and the last one
// is in all of them.
func TestEveryCaseIsTriedBySomeSeed(t *testing.T) {
	const n, size = 38, 9
	tried := map[int]bool{}
	for seed := range uint64(200) {
		cases := pick(n, size, random(seed))
		if len(slices.Compact(slices.Clone(cases))) != size || !slices.IsSorted(cases) || cases[size-1] != n {
			t.Fatalf("seed %d picks %v", seed, cases)
		}
		if again := pick(n, size, random(seed)); !slices.Equal(cases, again) {
			t.Fatalf("seed %d picks %v, then %v", seed, cases, again)
		}
		for _, c := range cases {
			tried[c] = true
		}
	}
	for c := 1; c <= n; c++ {
		if !tried[c] {
			t.Errorf("no seed tries case %d", c)
		}
	}
}

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		seed    string
		n, want int
	}{
		"no seed":   {"", 38, 38},
		"a quarter": {"7", 38, 9},
		"at least":  {"7", 10, 6},
		"few cases": {"7", 4, 4},
		"none":      {"7", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, tc.seed)
			if got := Of(t, tc.n); len(got) != tc.want {
				t.Errorf("%v, want %d cases", got, tc.want)
			}
		})
	}
}
