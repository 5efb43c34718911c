package testenv

import (
	"testing"
	"time"
)

// Eventually waits until check returns nil: for what a manager does on its own, or a
// cache sees a moment later. It ends the test with the last error after the limit.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
