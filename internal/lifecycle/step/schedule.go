package step

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // distroless images have no tz database

	"github.com/robfig/cron/v3"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// DefaultTimeZone is the time zone of a window that names none.
const DefaultTimeZone = "Etc/UTC"

// lookahead bounds the search for the end of openings that overlap one another: a
// schedule may never close.
const lookahead = 24 * time.Hour

var (
	// ErrSchedule is wrapped by errors about spec.schedule.
	ErrSchedule = errors.New("schedule")
	// ErrTimeZone is wrapped by errors about spec.timeZone.
	ErrTimeZone = errors.New("time zone")
	// ErrDuration is wrapped by errors about spec.durationSeconds.
	ErrDuration = errors.New("duration")
)

// Window is a maintenance window that opens again and again.
//
// The schedule is read on the clocks of its time zone. An opening at a time that the
// clocks skip is at the moment they jump; one at a time that they show twice is at the
// first of the two. The duration is elapsed time, whatever the clocks do.
type Window struct {
	schedule cron.Schedule
	location *time.Location
	duration time.Duration
}

// ParseWindow reads a window. The error wraps ErrSchedule, ErrTimeZone or ErrDuration.
func ParseWindow(step lifecyclev1.WindowStep) (*Window, error) {
	schedule, err := parseSchedule(step.Schedule)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrSchedule, step.Schedule, err)
	}
	location, err := parseTimeZone(step.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrTimeZone, step.TimeZone, err)
	}
	if step.DurationSeconds <= 0 {
		return nil, fmt.Errorf("%w of %d seconds: must be positive", ErrDuration, step.DurationSeconds)
	}
	return &Window{schedule: schedule, location: location, duration: time.Duration(step.DurationSeconds) * time.Second}, nil
}

func parseSchedule(expression string) (cron.Schedule, error) {
	expression = strings.TrimSpace(expression)
	switch {
	case strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ="):
		return nil, errors.New("the time zone belongs into timeZone")
	case strings.HasPrefix(expression, "@every"):
		return nil, errors.New("@every has no fixed times; write the five fields of cron, such as 0 */6 * * *")
	}
	fields := strings.Fields(expression)
	if len(fields) == 5 {
		if err := checkSteps(fields); err != nil {
			return nil, err
		}
		var err error
		if fields[4], err = weekdays(fields[4]); err != nil {
			return nil, err
		}
	}
	schedule, err := cron.ParseStandard(strings.Join(fields, " "))
	if err != nil {
		return nil, err
	}
	if spec, ok := schedule.(*cron.SpecSchedule); ok && len(fields) == 5 {
		// As for cron(8), a field that begins with * does not restrict, whatever its step is. The library
		// takes only a bare * for that: https://github.com/robfig/cron/issues/70
		spec.Dom = starred(spec.Dom, fields[2])
		spec.Dow = starred(spec.Dow, fields[4])
	}
	// The search ends after five years; so February 29th is found from here.
	if schedule.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("there is no such date: the window would never open")
	}
	return schedule, nil
}

// checkSteps refuses a step that is longer than what its field counts: */90 would be every hour. In the fields of
// days, a large step makes a star that matches one day.
func checkSteps(fields []string) error {
	for _, unit := range []struct {
		field, most int
		name        string
	}{{0, 59, "minutes"}, {1, 23, "hours"}, {3, 11, "months"}} {
		for item := range strings.SplitSeq(fields[unit.field], ",") {
			_, step, _ := strings.Cut(item, "/")
			if n, err := strconv.Atoi(step); err == nil && n > unit.most {
				return fmt.Errorf("the step %d of the %s is above %d, so that only the first of them would match", n, unit.name, unit.most)
			}
		}
	}
	return nil
}

// star is the library's mark of a field of days that does not restrict: days must match both
// fields when one has it, and either of them otherwise.
const star = 1 << 63

func starred(days uint64, field string) uint64 {
	if strings.HasPrefix(field, "*") || strings.HasPrefix(field, "?") {
		return days | star
	}
	return days &^ star
}

// weekdays writes the field of weekdays with 0 alone for Sunday. As for cron(8), 7 is one, too,
// and a range may end with it or with SUN.
func weekdays(field string) (string, error) {
	var items []string
	for item := range strings.SplitSeq(field, ",") {
		days, step, stepped := strings.Cut(item, "/")
		from, to, isRange := strings.Cut(days, "-")
		switch {
		case days == "7", days == "7-7":
			item = "0" // with a step as well: it counts from 7, and there is no day behind it
		case isRange && (to == "7" || strings.EqualFold(to, "sun")) && from != "7":
			first, err := weekday(from)
			if err != nil {
				return "", err
			}
			every := 1
			if stepped {
				if every, err = strconv.Atoi(step); err != nil || every < 1 {
					return "", fmt.Errorf("the step %q of the weekdays is no positive number", step)
				}
			}
			last := 7
			if to != "7" && first == 0 {
				last = 0 // from Sunday to Sunday
			}
			var all []string
			for day := first; day <= last; day += every {
				all = append(all, strconv.Itoa(day%7))
			}
			item = strings.Join(all, ",")
		}
		items = append(items, item)
	}
	return strings.Join(items, ","), nil
}

func weekday(name string) (int, error) {
	for day, short := range []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} {
		if strings.EqualFold(name, short) || name == strconv.Itoa(day) {
			return day, nil
		}
	}
	return 0, fmt.Errorf("there is no weekday %q: write 0 to 7, or sun to sat", name)
}

// EitherDay says whether both the day of month and the weekday restrict, so that the window
// opens on days that match either of them, which surprises whoever wants the first
// Saturday of a month.
func (w *Window) EitherDay() bool {
	spec, ok := w.schedule.(*cron.SpecSchedule)
	return ok && spec.Dom&star == 0 && spec.Dow&star == 0
}

// Openings returns when the window opens next, n times at most.
func (w *Window) Openings(after time.Time, n int) []time.Time {
	var all []time.Time
	for range n {
		if after = w.next(after); after.IsZero() {
			break
		}
		all = append(all, after)
	}
	return all
}

func parseTimeZone(name string) (*time.Location, error) {
	if name == "" {
		name = DefaultTimeZone
	}
	switch first, _, _ := strings.Cut(name, "/"); first {
	case "Local", "localtime", "posixrules":
		return nil, errors.New("every machine has another one; name a zone of the tz database, such as Europe/Berlin")
	case "posix", "right":
		// The tz database of this program lacks them; the latter have leap seconds, which no clock here has.
		return nil, fmt.Errorf("only some machines have it; write the name without %s/", first)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, errors.New("not in the tz database; its names are like Europe/Berlin or Etc/UTC")
	}
	return location, nil
}

// At says whether the window is open. Until is when it closes, or opens next; zero
// when it does not open within five years. Openings that overlap or touch are one; a
// window that stays open for more than a day from now says so until a day from now at
// least, and is then asked again.
func (w *Window) At(now time.Time) (open bool, until time.Time) {
	opened := w.next(now.Add(-w.duration))
	if opened.IsZero() || opened.After(now) {
		return false, opened
	}
	closes := opened.Add(w.duration)
	for closes.Sub(now) < lookahead {
		opened = w.next(opened)
		if opened.IsZero() || opened.After(closes) {
			break
		}
		closes = opened.Add(w.duration)
	}
	return true, closes
}

// Location is the time zone of the window.
func (w *Window) Location() *time.Location { return w.location }

// next is the first opening after a time; zero when there is none within five years.
func (w *Window) next(after time.Time) time.Time {
	_, offset := after.In(w.location).Zone()
	// The schedule is evaluated in UTC, which stands for clocks that never jump.
	clock := after.UTC().Add(time.Duration(offset) * time.Second)
	for {
		clock = w.schedule.Next(clock)
		if clock.IsZero() {
			return time.Time{}
		}
		// While clocks repeat an hour, its openings are over already.
		if opening := w.instant(clock); opening.After(after) {
			return opening
		}
	}
}

// instant is when the clocks of the time zone show, or skip, a time for the first time.
func (w *Window) instant(clock time.Time) time.Time {
	// No two zones are further apart than this.
	t := clock.Add(-26 * time.Hour).In(w.location)
	for {
		_, seconds := t.Zone()
		offset := time.Duration(seconds) * time.Second
		start, end := t.ZoneBounds()
		switch {
		case !end.IsZero() && !clock.Before(end.UTC().Add(offset)):
			t = end
		case !start.IsZero() && clock.Before(start.UTC().Add(offset)):
			return start
		default:
			return clock.Add(-offset).In(w.location)
		}
	}
}

// maxChanges bounds the search for an overlap: windows that change every minute and
// have not met in so many changes never will.
const maxChanges = 10000

// Overlap says whether two windows are open at the same time at some moment from a
// time on. The horizon of the search begins when both have opened once, so that a window
// which opens in leap years only overlaps with itself. Two policies whose windows never
// overlap block a cluster for ever.
func Overlap(a, b *Window, from time.Time, horizon time.Duration) bool {
	end := from.Add(horizon)
	for _, w := range []*Window{a, b} {
		if open, opens := w.At(from); !open && opens.Add(horizon).After(end) {
			end = opens.Add(horizon)
		}
	}
	now := from
	for range maxChanges {
		if !now.Before(end) {
			return false
		}
		openA, untilA := a.At(now)
		openB, untilB := b.At(now)
		switch {
		case openA && openB:
			return true
		case !openA && untilA.IsZero() || !openB && untilB.IsZero():
			return false
		case !openA:
			now = untilA
		default:
			now = untilB
		}
	}
	return false
}

// maxOpenings bounds the search for a pause between openings. A schedule of every minute
// has as many in a month.
const maxOpenings = 50000

// Permanent says whether the window does not close from a time on, within a horizon:
// its duration is as long as the pause between its openings. It looks at so many
// openings that it finds all pauses within a month, however often the window opens.
func (w *Window) Permanent(from time.Time, horizon time.Duration) bool {
	opened := w.next(from.Add(-w.duration))
	if opened.IsZero() || opened.After(from) {
		return false
	}
	for range maxOpenings {
		again := w.next(opened)
		if again.IsZero() || again.Sub(opened) > w.duration {
			return false
		}
		if again.Sub(from) >= horizon {
			return true
		}
		opened = again
	}
	return true
}
