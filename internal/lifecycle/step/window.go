package step

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// longestWindowPause bounds how late an opening is noticed after a clock was set forward.
const longestWindowPause = 10 * time.Minute

type windowKind struct{}

var _ = register(windowKind{})

// Name implements Kind.
func (windowKind) Name() string { return "window" }

// Manual implements Kind.
func (windowKind) Manual() (done, workload string) {
	return "a maintenance window (cron, duration, time zone) is open, also when the hook passes", "no"
}

// Is implements Kind.
func (windowKind) Is(s *lifecyclev1.Step) bool { return s.Window != nil }

// Facts implements Kind.
func (windowKind) Facts(s *lifecyclev1.Step) Facts {
	return Facts{
		Doing:    fmt.Sprintf("waits for the window %q (%s)", s.Window.Schedule, cmp.Or(s.Window.TimeZone, DefaultTimeZone)),
		Approval: "", Limit: 0, Waits: true, FollowsCluster: false, Workload: "",
		Lasting: func(now time.Time) (Lasting, error) {
			opening, err := ParseWindow(*s.Window)
			if err != nil {
				return Lasting{}, err
			}
			open, changes := opening.At(now)
			return Lasting{Holds: open, Changes: changes, Message: fmt.Sprintf(
				"the window closed before the other steps were done; it opens again at %s", changes.UTC().Format(time.RFC3339))}, nil
		},
	}
}

// Needs implements Kind.
func (windowKind) Needs(string, *lifecyclev1.Step, *field.Path) Needs {
	return Needs{Reads: nil, Engine: nil, Author: nil}
}

// Validate implements Kind.
func (windowKind) Validate(s *lifecyclev1.Step, at *field.Path) field.ErrorList {
	w := s.Window
	at = at.Child("window")
	_, err := ParseWindow(*w)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTimeZone):
		return field.ErrorList{field.Invalid(at.Child("timeZone"), w.TimeZone, err.Error())}
	case errors.Is(err, ErrDuration):
		return field.ErrorList{field.Invalid(at.Child("durationSeconds"), w.DurationSeconds, err.Error())}
	}
	return field.ErrorList{field.Invalid(at.Child("schedule"), w.Schedule, err.Error())}
}

// Execute is done while the window is open.
func (windowKind) Execute(_ context.Context, in Input) (Result, error) {
	opening, err := ParseWindow(*in.Step.Window)
	if err != nil {
		return Result{}, Terminal(err, "correct the policy, then retry")
	}
	open, until := opening.At(in.Now)
	message := "does not open within the next five years"
	switch when := until.In(opening.Location()).Format("2006-01-02 15:04:05 MST"); {
	case open:
		return Result{Done: true, Message: "open until " + when}, nil
	case !until.IsZero():
		message = "opens at " + when
	}
	if in.Run.Spec.Mode == lifecyclev1.ModeAudit {
		return Result{Done: true, Message: fmt.Sprintf("would wait: the window %s", message)}, nil
	}
	after := longestWindowPause
	if !until.IsZero() {
		after = min(after, until.Sub(in.Now))
	}
	return Result{Message: message, After: after}, nil
}

// warningHorizon is how far ahead a window is looked at.
const warningHorizon = 366 * 24 * time.Hour

// Warnings implements Warner.
func (windowKind) Warnings(s *lifecyclev1.Step, now time.Time) []string {
	opening, err := ParseWindow(*s.Window)
	if err != nil {
		return nil
	}
	var all []string
	if opening.Permanent(now, warningHorizon) {
		all = append(all, "the window never closes: it opens again before durationSeconds are over")
	}
	if opening.EitherDay() {
		var openings []string
		for _, at := range opening.Openings(now, 5) {
			openings = append(openings, at.Format("Mon 2006-01-02 15:04 MST"))
		}
		all = append(all, fmt.Sprintf("day of month and day of week both restrict, so the window opens on days that match either: %s. "+
			"For days that match both, such as the first Saturday of a month, write 0 22 */100,1-7 * 6", strings.Join(openings, ", ")))
	}
	return all
}
