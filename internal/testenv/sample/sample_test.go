package sample

import (
	"math/rand/v2"
	"slices"
	"strconv"
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

// Over all seeds each of the first cases is where a sample begins, and nothing but the share
// is left out after it.
func TestEndless(t *testing.T) {
	begins := map[int]bool{}
	for seed := range 50 {
		t.Setenv(Variable, strconv.Itoa(seed))
		var cases []int
		for n := range Endless(t) {
			if cases = append(cases, n); len(cases) == 3 {
				break
			}
		}
		begins[cases[0]] = true
		if cases[0] < 1 || cases[0] > share || cases[1] != cases[0]+share || cases[2] != cases[1]+share {
			t.Fatalf("seed %d tries %v", seed, cases)
		}
	}
	if len(begins) != share {
		t.Errorf("samples begin at %v, want each of the first %d", begins, share)
	}
	t.Setenv(Variable, "")
	next := 1
	for n := range Endless(t) {
		if n != next {
			t.Fatalf("without a seed %d follows %d", n, next-1)
		}
		if next++; next > 9 {
			break
		}
	}
}
