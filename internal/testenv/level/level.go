// Package level divides the tests into two levels: the gate, which `make test` runs and every
// change passes, and the deep suite, which `make test-deep` adds to it.
//
// Only tests may import it. It imports nothing but the standard library.
package level

import (
	"os"
	"testing"
)

// Variable chooses the deep suite when it is set.
const Variable = "SLIPWAY_DEEP"

// IsDeep reports whether the deep suite runs.
func IsDeep() bool { return os.Getenv(Variable) != "" }

// Deep skips a test of the deep suite when only the gate runs.
func Deep(t testing.TB) {
	t.Helper()
	if !IsDeep() {
		t.Skipf("a test of the deep suite: `make test-deep` runs it, or %s=1", Variable)
	}
}
