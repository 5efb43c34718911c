package status

import (
	"slices"
	"strings"
	"testing"
)

// TestNamesComeInTheirOrder sorts names that each line has in the right order.
func TestNamesComeInTheirOrder(t *testing.T) {
	for _, line := range []string{
		"db-9 db-10 rack1-a web",
		"a aa ab b",
		"a a-1 a1 a1-1",
		"edge-1 edge-2 edge-10 m-1 zz",
		"rack2-host1 rack2-host10 rack10-host1",
		"n007 n7 n08 n18446744073709551616 n18446744073709551617",
		"1 2 10 a",
	} {
		names := strings.Fields(line)
		for i, a := range names {
			for j, b := range names {
				if got := NaturalCompare(a, b); got != min(1, max(-1, i-j)) {
					t.Errorf("NaturalCompare(%q, %q) is %d", a, b, got)
				}
			}
		}
		slices.Reverse(names)
		slices.SortFunc(names, NaturalCompare)
		if got := strings.Join(names, " "); got != line {
			t.Errorf("sorted %q, want %q", got, line)
		}
	}
}
