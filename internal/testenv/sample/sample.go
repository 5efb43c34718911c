// Package sample picks which of many alike cases a test tries, where all of them would
// take too long for every run of the tests.
//
// Only tests may import it. It imports nothing but the standard library.
package sample

import (
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Variable holds the seed of the sample. Without it every case is tried, as
// `make test-full` does.
const Variable = "SLIPWAY_TEST_SAMPLE"

// A sample is a quarter of the cases, and at least so many.
const share, least = 4, 6

// Of returns the cases to try of those from 1 to n, in their order. The last one is always
// among them. The same seed gives a test the same sample; it is logged.
func Of(t testing.TB, n int) []int {
	t.Helper()
	random := randomFor(t)
	if random == nil {
		return pick(n, n, nil)
	}
	cases := pick(n, max(least, n/share), random)
	t.Logf("tries %v of %d; the seed is %s=%s", cases, n, Variable, os.Getenv(Variable))
	return cases
}

// Endless returns the cases to try of those from 1 on, in their order, where nobody knows
// how many there are before the test has run into the end of them: one of so many, from one
// of the first on.
func Endless(t testing.TB) iter.Seq[int] {
	t.Helper()
	first, step := 1, 1
	if random := randomFor(t); random != nil {
		first, step = 1+random.IntN(share), share
		t.Logf("tries one of %d from %d on; the seed is %s=%s", step, first, Variable, os.Getenv(Variable))
	}
	return func(yield func(int) bool) {
		for n := first; yield(n); n += step {
		}
	}
}

// Size is how many of a crowd a test has take part: all, or fewer where it tries a sample.
func Size(t testing.TB, all, fewer int) int {
	t.Helper()
	if randomFor(t) == nil {
		return all
	}
	t.Logf("has %d of %d take part, because %s is set", fewer, all, Variable)
	return fewer
}

// randomFor is the source of a test's sample, nil when it tries every case.
func randomFor(t testing.TB) *rand.Rand {
	t.Helper()
	text := os.Getenv(Variable)
	if text == "" {
		return nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, name.Sum64()))
}

func pick(n, size int, random *rand.Rand) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	if size >= n {
		return all
	}
	random.Shuffle(n-1, func(i, j int) { all[i], all[j] = all[j], all[i] })
	cases := append(slices.Clone(all[:size-1]), n)
	slices.Sort(cases)
	return cases
}
