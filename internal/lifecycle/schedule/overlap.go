package schedule

import "time"

// maxChanges bounds the search for an overlap: windows that change every minute and
// have not met in so many changes never will.
const maxChanges = 10000

// Overlap says whether two windows are open at the same time at some moment from a
// time on. The horizon of the search begins when both have opened once, so that a window
// which opens in leap years only overlaps with itself. Two policies whose windows never
// overlap hold a cluster back for ever.
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
