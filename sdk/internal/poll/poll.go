// Package poll waits in tests for what has no event to wait for. A wait has no limit of its own:
// it ends shortly before the run does (-timeout of `go test`), or after SLIPWAY_TEST_PATIENCE.
//
// Only tests may import it.
package poll

import (
	"os"
	"testing"
	"time"
)

// Until looks until check returns nil. It ends the test with the last error when the run ends.
func Until(t testing.TB, what string, check func() error) {
	t.Helper()
	const rest = 20 * time.Second // for the test to report and to clean up
	ends, limited := time.Time{}, false
	if run, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		ends, limited = run.Deadline()
	}
	if patience, err := time.ParseDuration(os.Getenv("SLIPWAY_TEST_PATIENCE")); err == nil {
		ends, limited = time.Now().Add(rest+patience), true
	}
	for ; ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if limited && time.Until(ends) < rest {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
