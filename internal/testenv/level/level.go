// Package level divides the tests into two levels: the gate, which `make test` runs and every
// change passes, and the deep suite, which `make test-deep` adds to it.
//
// Only tests may import it. It imports nothing but the standard library.
package level

import (
	"iter"
	"os"
	"testing"
)

// Variable chooses the deep suite when it is set.
const Variable = "SLIPWAY_DEEP"

// points is the size of a sample in the gate.
const points = 3

// IsDeep reports whether the deep suite runs.
func IsDeep() bool { return os.Getenv(Variable) != "" }

// Deep skips a test of the deep suite when only the gate runs.
func Deep(t testing.TB) {
	t.Helper()
	if !IsDeep() {
		t.Skipf("a test of the deep suite: `make test-deep` runs it, or %s=1", Variable)
	}
}

// Cases returns which of the cases 1 to n a test tries, in ascending order: all in the deep
// suite, in the gate the first, the middle and the last. The gate always tries the
// same ones, so that its results can be reused and a failure is not taken for chance.
func Cases(n int) []int {
	if n < 1 {
		return nil
	}
	count := n
	if !IsDeep() {
		count = min(n, points)
	}
	cases := make([]int, count)
	for i := range cases {
		cases[i] = 1
		if count > 1 {
			cases[i] += i * (n - 1) / (count - 1)
		}
	}
	return cases
}

// Endless returns which of the cases from 1 on a test tries until it runs into their end: all
// in the deep suite, in the gate the powers of two.
func Endless() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := 1; yield(n); {
			if IsDeep() {
				n++
			} else {
				n *= 2
			}
		}
	}
}
