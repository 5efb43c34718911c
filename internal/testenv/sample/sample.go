// Package sample picks which of many alike cases a test tries, where all of them would
// take too long for every run of the tests.
//
// Only tests may import it. It imports nothing but the standard library.
package sample

import (
	"hash/fnv"
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
	text := os.Getenv(Variable)
	if text == "" {
		return pick(n, n, nil)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(t.Name()))
	cases := pick(n, max(least, n/share), rand.New(rand.NewPCG(seed, name.Sum64())))
	t.Logf("tries %v of %d; the seed is %s=%d", cases, n, Variable, seed)
	return cases
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
