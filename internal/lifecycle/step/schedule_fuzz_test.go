package step_test

import (
	"errors"
	"testing"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// FuzzWindow holds that what Parse refuses it refuses for one of three reasons, and
// that what it accepts tells at any moment whether it is open, until when, and says
// something else then.
func FuzzWindow(f *testing.F) {
	f.Add("0 22 * * 6", "Europe/Berlin", int32(3600), int64(1767225600))
	f.Add("*/7 1-3 29 2 *", "", int32(60), int64(0))
	f.Add("@monthly", "Australia/Lord_Howe", int32(2678400), int64(1617500000))
	f.Add("* * * * *", "Etc/UTC", int32(60), int64(1767225599))
	f.Add("0 0 30 2 *", "Local", int32(60), int64(1))
	f.Add("TZ=UTC 0 0 * * *", "../UTC", int32(-1), int64(1))
	f.Add("@every 1s", "Pacific/Apia", int32(1), int64(253402300799))
	f.Fuzz(func(t *testing.T, cron, zone string, seconds int32, unix int64) {
		// The bounds of the API, and the years that clocks can show.
		if len(cron) > 128 || len(zone) > 64 || seconds > 2678400 || unix < 0 || unix > 253402300799 {
			return
		}
		w, err := step.ParseWindow(lifecyclev1.WindowStep{Schedule: cron, TimeZone: zone, DurationSeconds: seconds})
		if err != nil {
			if !errors.Is(err, step.ErrSchedule) && !errors.Is(err, step.ErrTimeZone) && !errors.Is(err, step.ErrDuration) {
				t.Errorf("%v wraps none of the reasons", err)
			}
			return
		}
		now := time.Unix(unix, 0).UTC()
		open, until := w.At(now)
		switch {
		case until.IsZero():
			if open {
				t.Errorf("%q in %q at %s: open, nobody knows until when", cron, zone, now)
			}
		case !until.After(now):
			t.Errorf("%q in %q at %s: %t until %s", cron, zone, now, open, until)
		case !open:
			if opened, _ := w.At(until); !opened {
				t.Errorf("%q in %q at %s: does not open at %s", cron, zone, now, until)
			}
		case until.Sub(now) < 24*time.Hour:
			if still, _ := w.At(until); still {
				t.Errorf("%q in %q at %s: does not close at %s", cron, zone, now, until)
			}
		}
		if !step.Overlap(w, w, now, 6*366*24*time.Hour) && !until.IsZero() {
			t.Errorf("%q in %q from %s: never open when it is open", cron, zone, now)
		}
	})
}
