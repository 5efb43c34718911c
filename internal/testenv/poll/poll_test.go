package poll

import (
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
				True(t, time.Minute, name, func() bool {
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
