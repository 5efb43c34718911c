// Package poll waits for what has no event to wait for: what another process does on its
// own, or a cache sees a moment later.
//
// A wait has no limit of its own: it ends shortly before the run does (-timeout of `go test`),
// with what was missing at last. On a slow machine nothing else is right, and a test that hangs
// is a rare thing. SLIPWAY_TEST_PATIENCE gives every wait a limit, for who expects tests to fail.
//
// Only tests may import it. It imports nothing but the standard library.
package poll

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// Between two looks passes a twentieth of what the wait has taken, within these limits: who
// waits for minutes leaves the processors to what is waited for.
const shortest, longest = 20 * time.Millisecond, 500 * time.Millisecond

func pause(waited time.Duration) time.Duration { return min(max(waited/20, shortest), longest) }

// Variable is how long a wait may last, such as 1m. Without it a wait ends with the run.
const Variable = "SLIPWAY_TEST_PATIENCE"

var started = time.Now()

// Limit is how long a wait that begins now may last.
func Limit() time.Duration {
	if text := os.Getenv(Variable); text != "" {
		patience, err := time.ParseDuration(text)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", Variable, err))
		}
		return patience
	}
	run := flag.Lookup("test.timeout")
	if run == nil {
		return forever
	}
	whole, ok := run.Value.(flag.Getter).Get().(time.Duration)
	if !ok || whole <= 0 {
		return forever
	}
	return time.Until(started.Add(usable(whole)))
}

// usable is the part of a run for waits: the last twentieth, but no more than 20 s, is for the
// test to report and to clean up.
func usable(run time.Duration) time.Duration { return run - min(run/20, 20*time.Second) }

const forever = 1000 * time.Hour

// Until looks until check returns nil. It ends the test with the last error when the run ends.
func Until(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := Wait(check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Wait is Until where there is no test, as in TestMain.
func Wait(check func() error) error {
	begin, most := time.Now(), Limit()
	for ; ; time.Sleep(pause(time.Since(begin))) {
		err := check()
		if err == nil {
			return nil
		}
		if waited := time.Since(begin); waited > most {
			return fmt.Errorf("not after %s: %w", waited.Round(time.Second), err)
		}
	}
}

var errNotYet = errors.New("it is not")

// True is Until for what has nothing to tell.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Until(t, what, func() error {
		if ok() {
			return nil
		}
		return errNotYet
	})
}

// Context is that of a test, and ends when a wait would: for what would hang with a context that
// never ends.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit())
	t.Cleanup(cancel)
	return ctx
}

// Repeat calls step with short pauses, as a played agent does, and ends with the test.
func Repeat(t testing.TB, step func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(shortest) {
			step(ctx)
		}
	}()
}

// Receive waits for the next value of a channel, or for its end, after which it returns the
// zero value.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	most := Limit()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case value := <-from:
		return value
	case <-timer.C:
		t.Fatalf("not after %s: %s", most.Round(time.Second), what)
		panic("unreachable")
	}
}
