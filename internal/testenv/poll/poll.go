// Package poll waits for what has no event to wait for: what another process does on its
// own, or a cache sees a moment later.
//
// Only tests may import it. It imports nothing but the standard library.
package poll

import (
	"errors"
	"testing"
	"time"
)

// Between two looks passes a twentieth of what the wait has taken, within these limits: who
// waits for minutes leaves the processors to what is waited for.
const shortest, longest = 20 * time.Millisecond, 500 * time.Millisecond

func pause(waited time.Duration) time.Duration { return min(max(waited/20, shortest), longest) }

// Until looks until check returns nil. It ends the test with the last error after the limit.
func Until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(pause(time.Since(begin))) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("not within %s: %s: %v", limit, what, err)
		}
	}
}

var errNotYet = errors.New("it is not")

// True is Until for what has nothing to tell.
func True(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	Until(t, limit, what, func() error {
		if ok() {
			return nil
		}
		return errNotYet
	})
}
