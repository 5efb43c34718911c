package core

import "time"

const (
	laterFirst  = 200 * time.Millisecond
	laterLast   = 10 * time.Second
	failedFirst = 2 * time.Second
	failedLast  = time.Minute
	// resetLast bounds the wait between two tries of a reset, which goes on for as long as it takes.
	resetLast = 10 * time.Minute
	// quietTries are the tries without success that are not worth a report: the
	// right to read a Secret may lag behind the operation.
	quietTries = 3
)

// delays spaces the tries of one operation. The zero value waits for nothing.
type delays struct {
	until time.Time
	tries int
}

// left returns how long the action has to wait. A new operation never waits.
func (d *delays) left(kind ActionKind, now time.Time) time.Duration {
	if kind == ActionBegin || kind == ActionNone || kind == ActionRefuse {
		return 0
	}
	return d.until.Sub(now)
}

// later returns the wait before another try that is not counted.
func (d *delays) later() time.Duration {
	d.tries++
	return min(laterFirst<<min(d.tries-1, 10), laterLast)
}

// resetDelay returns the wait after the n-th failed try of a reset.
func resetDelay(n int) time.Duration {
	return min(failedFirst<<min(max(n-1, 0), 20), resetLast)
}

// failedDelay returns the wait after the n-th failed try.
func failedDelay(n int) time.Duration {
	return min(failedFirst<<min(max(n-1, 0), 10), failedLast)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
