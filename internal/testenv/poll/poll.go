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

// interval between two looks.
const interval = 20 * time.Millisecond

// Until looks until check returns nil. It ends the test with the last error after the limit.
func Until(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(interval) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
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
