package serve

import (
	"slices"
	"testing"
)

func TestGCFollowsTheWork(t *testing.T) {
	var got []int
	p := &gcTuner{heap: func() uint64 { return 0 }, set: func(percent int) { got = append(got, percent) }}
	for _, share := range []float64{1.5, 0.2, 0.05, 0.05, 0.2, 0.4, 0.9, 0.01, 1.2, 1.2, 0.9, 1.2, 1.2, 1.2, 1.2, 0.4, 0.01} {
		p.observe(share)
	}
	if want := []int{gcIdle, gcBusy, gcIdle, gcBusy, gcLoaded, gcIdle}; !slices.Equal(got, want) {
		t.Errorf("percentages %v, want %v: one change for each turn, none between the shares, and none for work that is soon over", got, want)
	}
}

func TestGCOfALargeHeapDoesNotWait(t *testing.T) {
	var got []int
	p := &gcTuner{heap: func() uint64 { return largeHeap }, set: func(percent int) { got = append(got, percent) }}
	for _, share := range []float64{0.05, 0.2, 0.4, 0.2, 0.05} {
		p.observe(share)
	}
	if want := []int{gcIdle, gcLoaded, gcIdle}; !slices.Equal(got, want) {
		t.Errorf("percentages %v, want %v", got, want)
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
