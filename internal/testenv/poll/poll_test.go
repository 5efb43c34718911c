package poll

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What comes soon is seen soon, and a long wait costs few looks.
func TestLooks(t *testing.T) {
	for name, tc := range map[string]struct {
		after       time.Duration
		late        time.Duration
		least, most int
	}{
		"at once":          {0, 0, 1, 1},
		"soon":             {100 * time.Millisecond, 20 * time.Millisecond, 6, 6},
		"in a second":      {time.Second, 50 * time.Millisecond, 30, 45},
		"in half a minute": {30 * time.Second, 500 * time.Millisecond, 100, 150},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, looks := time.Now(), 0
				True(t, name, func() bool {
					looks++
					return time.Since(begin) >= tc.after
				})
				if late := time.Since(begin) - tc.after; late > tc.late {
					t.Errorf("seen %s late, want at most %s", late, tc.late)
				}
				if looks < tc.least || looks > tc.most {
					t.Errorf("%d looks, want %d to %d", looks, tc.least, tc.most)
				}
			})
		})
	}
}

// A wait ends while the run has time for what the test reports, or with its patience.
func TestLimit(t *testing.T) {
	run := flag.Lookup("test.timeout")
	whole := run.Value.String()
	t.Setenv(Variable, "")
	t.Cleanup(func() { _ = run.Value.Set(whole) })
	for timeout, want := range map[time.Duration]time.Duration{10 * time.Minute: 580 * time.Second, 100 * time.Second: 95 * time.Second} {
		if got := usable(timeout); got != want {
			t.Errorf("waits have %s of %s, want %s", got, timeout, want)
		}
		if err := run.Value.Set(timeout.String()); err != nil {
			t.Fatal(err)
		}
		if got := Limit(); got > want {
			t.Errorf("of %s a wait may last %s", timeout, got)
		}
	}
	if err := run.Value.Set("0"); err != nil {
		t.Fatal(err)
	}
	if Limit() != forever {
		t.Errorf("without a limit of the run a wait ends after %s", Limit())
	}
	t.Setenv(Variable, "1ns")
	if err := Wait(func() error { return errNotYet }); err == nil || !strings.Contains(err.Error(), "it is not") {
		t.Errorf("an impatient wait: %v", err)
	}
}
