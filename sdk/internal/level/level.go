// Package level tells the tests of the SDK which of the two levels runs, the gate or the deep
// suite, as internal/testenv/level of the root module does: this module cannot import that one.
//
// Only tests may import it.
package level

import (
	"os"
	"testing"
)

// IsDeep reports whether the deep suite runs.
func IsDeep() bool { return os.Getenv("SLIPWAY_DEEP") != "" }

// Deep skips a test of the deep suite when only the gate runs.
func Deep(t testing.TB) {
	t.Helper()
	if !IsDeep() {
		t.Skip("a test of the deep suite: SLIPWAY_DEEP=1 runs it")
	}
}
