// Package rights is for tests that need root or programs that were built before.
//
// Only tests may import it. It imports nothing but the standard library.
package rights

import (
	"os"
	"testing"
)

// Skip leaves a test out for want of rights or programs. With SLIPWAY_REQUIRE_ROOT
// set, as `make test` does, nothing may be left out: the test fails.
func Skip(t testing.TB, why ...any) {
	t.Helper()
	if os.Getenv("SLIPWAY_REQUIRE_ROOT") != "" {
		t.Fatal(why...)
	}
	t.Skip(why...)
}
