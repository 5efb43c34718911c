package serve

import (
	"slices"
	"testing"
)

func TestGCFollowsTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		heap   uint64
		shares []float64
		want   []mode
	}{
		"one change for each turn, none between the shares, and none for work that is soon over": {
			shares: []float64{1.5, 0.2, 0.05, 0.05, 0.2, 0.4, 0.9, 0.01, 1.2, 1.2, 0.9, 1.2, 1.2, 1.2, 1.2, 0.4, 0.01},
			want:   []mode{starting, idle, busy, idle, busy, loaded, idle},
		},
		"a large heap does not wait": {
			heap: largeHeap, shares: []float64{0.05, 0.2, 0.4, 0.2, 0.05}, want: []mode{starting, idle, loaded, idle},
		},
		"a large heap that comes up": {heap: largeHeap, shares: []float64{1.5, 1.5}, want: []mode{starting, loaded}},
		"a heap that leaves no room below the limit of coming up": {
			heap: startingHeap, shares: []float64{0.2, 0.2, 0.05}, want: []mode{starting, busy, idle},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []mode
			g := &gcTuner{heap: func() uint64 { return c.heap }, set: func(to mode) { got = append(got, to) }}
			if err := g.init(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, share := range c.shares {
				g.observe(share)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("modes %v, want %v", got, c.want)
			}
		})
	}
}

// Whoever starts a plane may know better how its memory and time are worth.
func TestGCOfTheEnvironmentIsKept(t *testing.T) {
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(variable, "")
	}
	if collectorGiven() {
		t.Error("an environment that says nothing is taken for one that does")
	}
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "200")
			if !collectorGiven() {
				t.Errorf("%s is not looked at", variable)
			}
		})
	}
}
