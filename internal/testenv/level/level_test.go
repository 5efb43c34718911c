package level

import (
	"slices"
	"testing"
)

func TestCases(t *testing.T) {
	for name, tc := range map[string]struct {
		deep string
		n    int
		want []int
	}{
		"none":          {"", 0, nil},
		"one":           {"", 1, []int{1}},
		"two":           {"", 2, []int{1, 2}},
		"three of many": {"", 38, []int{1, 19, 38}},
		"all in depth":  {"1", 9, []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(Variable, tc.deep)
			if got := Cases(tc.n); !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestEndless(t *testing.T) {
	for deep, want := range map[string][]int{"": {1, 2, 4, 8, 16}, "1": {1, 2, 3, 4, 5}} {
		t.Setenv(Variable, deep)
		var got []int
		for n := range Endless() {
			if got = append(got, n); len(got) == len(want) {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s=%q: %v, want %v", Variable, deep, got, want)
		}
	}
}

func TestDeep(t *testing.T) {
	for deep, skipped := range map[string]bool{"": true, "1": false} {
		t.Setenv(Variable, deep)
		var inner *testing.T
		t.Run("inner "+deep, func(t *testing.T) { inner = t; Deep(t) })
		if inner.Skipped() != skipped {
			t.Errorf("%s=%q: skipped %v", Variable, deep, inner.Skipped())
		}
	}
}
