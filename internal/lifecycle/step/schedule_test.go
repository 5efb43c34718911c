package step_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

func parse(t *testing.T, cron, zone string, duration time.Duration) *step.Window {
	t.Helper()
	w, err := step.ParseWindow(lifecyclev1.WindowStep{Schedule: cron, TimeZone: zone, DurationSeconds: int32(duration / time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func at(t *testing.T, value string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, value)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func TestAt(t *testing.T) {
	for _, c := range []struct {
		name, cron, zone string
		duration         time.Duration
		now              string
		open             bool
		until            string
	}{
		{"before", "0 22 * * *", "", time.Hour, "2026-03-01T21:59:59Z", false, "2026-03-01T22:00:00Z"},
		{"opens on the second", "0 22 * * *", "", time.Hour, "2026-03-01T22:00:00Z", true, "2026-03-01T23:00:00Z"},
		{"last second", "0 22 * * *", "", time.Hour, "2026-03-01T22:59:59Z", true, "2026-03-01T23:00:00Z"},
		{"closes on the second", "0 22 * * *", "", time.Hour, "2026-03-01T23:00:00Z", false, "2026-03-02T22:00:00Z"},
		{"over midnight", "0 22 * * *", "", 4 * time.Hour, "2026-03-02T01:00:00Z", true, "2026-03-02T02:00:00Z"},
		{"in its time zone", "0 22 * * 6", "Europe/Berlin", time.Hour, "2026-03-07T21:30:00Z", true, "2026-03-07T22:00:00Z"},
		{"weekly", "@weekly", "", time.Hour, "2026-03-04T00:00:00Z", false, "2026-03-08T00:00:00Z"},
		{"touching openings are one", "0 1,2 * * *", "", time.Hour, "2026-03-01T01:00:00Z", true, "2026-03-01T03:00:00Z"},
		{"overlapping openings are one", "0 1,2 * * *", "", 90 * time.Minute, "2026-03-01T01:00:00Z", true, "2026-03-01T03:30:00Z"},
		{"longer than the period", "0 * * * *", "", 3 * time.Hour, "2026-03-01T01:10:00Z", true, "2026-03-02T02:00:00Z"},
		{"longest, densest", "* * * * *", "", 31 * 24 * time.Hour, "2026-03-01T01:10:00Z", true, "2026-03-02T01:10:00Z"},
		{"seven is Sunday", "0 22 * * 7", "", time.Hour, "2026-08-03T00:00:00Z", false, "2026-08-09T22:00:00Z"},
		{"a weekend by number", "0 22 * * 6-7", "", time.Hour, "2026-08-02T00:00:00Z", false, "2026-08-02T22:00:00Z"},
		{"a weekend by name", "0 22 * * Sat-Sun", "", time.Hour, "2026-08-02T23:30:00Z", false, "2026-08-08T22:00:00Z"},
		{"each other day to Sunday", "0 22 * * fri-7/2", "", time.Hour, "2026-08-07T23:30:00Z", false, "2026-08-09T22:00:00Z"},
		{"every day by number", "0 22 * * 0-7", "", time.Hour, "2026-08-04T00:00:00Z", false, "2026-08-04T22:00:00Z"},
		{"by name", "0 22 * aug mon", "", time.Hour, "2026-08-04T00:00:00Z", false, "2026-08-10T22:00:00Z"},
		{"first Saturday", "0 22 */100,1-7 * 6", "", time.Hour, "2026-08-01T23:30:00Z", false, "2026-09-05T22:00:00Z"},
		{"odd Saturdays", "0 22 */2 * 6", "", time.Hour, "2026-08-02T00:00:00Z", false, "2026-08-15T22:00:00Z"},
		{"even weekdays of the first week", "0 22 1-7 * */2", "", time.Hour, "2026-08-04T23:30:00Z", false, "2026-08-06T22:00:00Z"},
		{"either day", "0 22 1-7 * 6", "", time.Hour, "2026-08-07T23:30:00Z", false, "2026-08-08T22:00:00Z"},
		{"only in leap years", "0 0 29 2 *", "", time.Hour, "2026-03-01T00:00:00Z", false, "2028-02-29T00:00:00Z"},

		// Berlin jumps on 2026-03-29 from 02:00 to 03:00: 01:00 UTC.
		{"skipped: before", "30 2 * * *", "Europe/Berlin", time.Hour, "2026-03-29T00:59:59Z", false, "2026-03-29T01:00:00Z"},
		{"skipped: opens at the jump", "30 2 * * *", "Europe/Berlin", time.Hour, "2026-03-29T01:00:00Z", true, "2026-03-29T02:00:00Z"},
		{"skipped: once only", "30 2 * * *", "Europe/Berlin", time.Hour, "2026-03-29T02:00:00Z", false, "2026-03-30T00:30:00Z"},
		{"open across the jump: elapsed time", "30 1 * * *", "Europe/Berlin", time.Hour, "2026-03-29T01:10:00Z", true, "2026-03-29T01:30:00Z"},
		// Berlin goes back on 2026-10-25 from 03:00 to 02:00: 01:00 UTC.
		{"twice: the first", "30 2 * * *", "Europe/Berlin", time.Hour, "2026-10-25T00:30:00Z", true, "2026-10-25T01:30:00Z"},
		{"twice: not the second", "30 2 * * *", "Europe/Berlin", 10 * time.Minute, "2026-10-25T01:30:00Z", false, "2026-10-26T01:30:00Z"},
		{"twice: the day's other openings", "15 * * * *", "Europe/Berlin", 10 * time.Minute, "2026-10-25T00:30:00Z", false, "2026-10-25T02:15:00Z"},
		// Lord Howe's clocks jump by half an hour, on 2026-10-04 from 02:00 to 02:30: 15:30 UTC the day before.
		{"half an hour", "10 2 * * *", "Australia/Lord_Howe", time.Hour, "2026-10-03T15:30:00Z", true, "2026-10-03T16:30:00Z"},
		// Samoa had no 2011-12-30: it jumped over the date line at 10:00 UTC.
		{"a day that was not there", "0 12 30 12 *", "Pacific/Apia", time.Hour, "2011-12-30T10:00:00Z", true, "2011-12-30T11:00:00Z"},
		// Beirut's day began at 01:00 on 2021-03-28.
		{"a midnight that was not there", "0 0 * * *", "Asia/Beirut", time.Hour, "2021-03-27T22:00:00Z", true, "2021-03-27T23:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := parse(t, c.cron, c.zone, c.duration)
			open, until := w.At(at(t, c.now))
			if open != c.open || !until.Equal(at(t, c.until)) {
				t.Errorf("At(%s) = %t until %s, want %t until %s", c.now, open, until.UTC().Format(time.RFC3339), c.open, c.until)
			}
		})
	}
}

func TestBadWindowsNameTheField(t *testing.T) {
	for _, c := range []struct {
		name  string
		step  lifecyclev1.WindowStep
		is    error
		tells string
	}{
		{"no cron", lifecyclev1.WindowStep{Schedule: "at night", DurationSeconds: 60}, step.ErrSchedule, "at night"},
		{"seconds", lifecyclev1.WindowStep{Schedule: "0 0 1 * * *", DurationSeconds: 60}, step.ErrSchedule, "5 fields"},
		{"range", lifecyclev1.WindowStep{Schedule: "61 0 * * *", DurationSeconds: 60}, step.ErrSchedule, "61"},
		{"every", lifecyclev1.WindowStep{Schedule: "@every 1h", DurationSeconds: 60}, step.ErrSchedule, "five fields"},
		{"zone in the schedule", lifecyclev1.WindowStep{Schedule: "TZ=Europe/Berlin 0 1 * * *", DurationSeconds: 60}, step.ErrSchedule, "timeZone"},
		{"cron zone in the schedule", lifecyclev1.WindowStep{Schedule: "CRON_TZ=Europe/Berlin 0 1 * * *", DurationSeconds: 60}, step.ErrSchedule, "timeZone"},
		{"never", lifecyclev1.WindowStep{Schedule: "0 0 31 2 *", DurationSeconds: 60}, step.ErrSchedule, "never open"},
		{"zone", lifecyclev1.WindowStep{Schedule: "0 1 * * *", TimeZone: "Europe/Atlantis", DurationSeconds: 60}, step.ErrTimeZone, "Europe/Berlin"},
		{"local zone", lifecyclev1.WindowStep{Schedule: "0 1 * * *", TimeZone: "Local", DurationSeconds: 60}, step.ErrTimeZone, "Europe/Berlin"},
		{"zone of the machine", lifecyclev1.WindowStep{Schedule: "0 1 * * *", TimeZone: "localtime", DurationSeconds: 60}, step.ErrTimeZone, "every machine"},
		{"zone with leap seconds", lifecyclev1.WindowStep{Schedule: "0 1 * * *", TimeZone: "right/Europe/Berlin", DurationSeconds: 60}, step.ErrTimeZone, "without right/"},
		{"path", lifecyclev1.WindowStep{Schedule: "0 1 * * *", TimeZone: "../../etc/passwd", DurationSeconds: 60}, step.ErrTimeZone, "tz database"},
		{"duration", lifecyclev1.WindowStep{Schedule: "0 1 * * *"}, step.ErrDuration, "positive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := step.ParseWindow(c.step)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.tells) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	from := at(t, "2026-03-01T00:00:00Z")
	year := 366 * 24 * time.Hour
	night, noon := parse(t, "0 1 * * *", "", time.Hour), parse(t, "0 12 * * *", "", time.Hour)
	for _, c := range []struct {
		name string
		a, b *step.Window
		want bool
	}{
		{"itself", night, night, true},
		{"never", night, noon, false},
		{"touching is not overlapping", night, parse(t, "0 2 * * *", "", time.Hour), false},
		{"once a year", night, parse(t, "30 1 24 12 *", "", time.Hour), true},
		{"only in leap years", parse(t, "0 1 29 2 *", "", time.Hour), parse(t, "0 1 28 2 *", "", time.Hour), false},
		{"in leap years, with itself", parse(t, "0 1 29 2 *", "", time.Hour), parse(t, "0 1 29 2 *", "", time.Hour), true},
		{"in leap years, with every night", parse(t, "0 1 29 2 *", "", time.Hour), night, true},
		{"in leap years, at another hour", parse(t, "0 1 29 2 *", "", time.Hour), noon, false},
		{"always open", noon, parse(t, "* * * * *", "", time.Hour), true},
		{"alternating minutes", parse(t, "0-58/2 * * * *", "", time.Minute), parse(t, "1-59/2 * * * *", "", time.Minute), false},
		{"through summer time only", parse(t, "0 1 * * *", "", time.Hour), parse(t, "0 3 * * *", "Europe/Berlin", time.Hour), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := step.Overlap(c.a, c.b, from, year); got != c.want {
				t.Errorf("got %t", got)
			}
			if got := step.Overlap(c.b, c.a, from, year); got != c.want {
				t.Errorf("the other way round: got %t", got)
			}
		})
	}
}

func TestPermanent(t *testing.T) {
	from := at(t, "2026-03-01T00:00:00Z")
	if !parse(t, "0 * * * *", "", time.Hour).Permanent(from, 40*24*time.Hour) {
		t.Error("an hour of every hour is always")
	}
	if parse(t, "0 * * * *", "", 59*time.Minute).Permanent(from, 40*24*time.Hour) {
		t.Error("59 minutes of every hour are not always")
	}
	if parse(t, "*/2 * 1-20 * *", "", 2*time.Minute).Permanent(from, 366*24*time.Hour) {
		t.Error("twenty days of every month are not always")
	}
}

func TestOpenings(t *testing.T) {
	w := parse(t, "0 22 */100,1-7 * 6", "", time.Hour)
	var got []string
	for _, opening := range w.Openings(at(t, "2026-08-01T22:00:00Z"), 3) {
		got = append(got, opening.Format(time.DateOnly))
	}
	if strings.Join(got, " ") != "2026-09-05 2026-10-03 2026-11-07" {
		t.Errorf("opens on %v", got)
	}
	for cron, want := range map[string]bool{"0 22 */100,1-7 * 6": false, "0 22 1-7 * 6": true, "0 22 1-7 * *": false, "@weekly": false, "0 22 1-31 * 7": true} {
		if got := parse(t, cron, "", time.Hour).EitherDay(); got != want {
			t.Errorf("%q opens on either day: %t", cron, got)
		}
	}
}

// Weekdays that begin or end with Sunday, in cron's two numbers for it.
func TestSundays(t *testing.T) {
	for cron, want := range map[string]string{
		"0 22 * * 7": "Sun Sun", "0 22 * * 7-7": "Sun Sun", "0 22 * * 7/2": "Sun Sun", "0 22 * * sun-sun": "Sun Sun", "0 22 * * 0-sun": "Sun Sun", "0 22 * * 0-7": "Sat Sun", "0 22 * * fri-sun": "Sat Sun",
		"0 22 * * 5-7/2": "Sun Fri", "0 22 * * mon-7": "Sat Sun",
	} {
		var got []string
		for _, opening := range parse(t, cron, "", time.Hour).Openings(at(t, "2026-08-01T12:00:00Z"), 2) {
			got = append(got, opening.Format("Mon"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q opens on %v, want %s", cron, got, want)
		}
	}
}

// A step beyond its field would match once, and who writes it means something else.
func TestStepsBeyondTheField(t *testing.T) {
	for cron, want := range map[string]bool{"*/59 * * * *": true, "*/90 * * * *": false, "0 */24 * * *": false, "0 0 1 */12 *": false, "0 1-5/2,*/30 * * *": false, "0 22 */100,1-7 * 6": true, "0 22 * * */7": true} {
		_, err := step.ParseWindow(lifecyclev1.WindowStep{Schedule: cron, DurationSeconds: 60})
		if (err == nil) != want || err != nil && !errors.Is(err, step.ErrSchedule) {
			t.Errorf("%q: %v", cron, err)
		}
	}
}
