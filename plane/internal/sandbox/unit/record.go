package unit

import "time"

// phase of a unit.
type phase int

const (
	// inactive: not running, nothing in the way of a start.
	inactive phase = iota
	// waiting: wanted, but its condition or a unit before it is not met.
	waiting
	// starting: running, not ready.
	starting
	// active: running and ready.
	active
	// stopping: running, told to end.
	stopping
	// backoff: ended by itself, to be started again.
	backoff
)

// action is what step wants done.
type action int

const (
	actNone action = iota
	actStart
	actTerm
	actKill
)

// facts is what step has to know of the world.
type facts struct {
	now time.Time
	// condition reports whether the unit's ConditionPath exists.
	condition bool
	// predecessors reports whether all units of After are ready.
	predecessors bool
	// successors reports whether a unit that has this one in After is running.
	successors bool
}

// record is the state of one unit. It is changed by the supervisor's goroutine only.
type record struct {
	unit    Unit
	enabled bool
	wanted  bool
	phase   phase
	pid     int
	// until is the end of the phase backoff or stopping.
	until time.Time
	// killed tells that SIGKILL has been sent in the phase stopping.
	killed bool
	// started counts starts, so that news of an earlier process is recognised.
	started int
	// since is the time of the last change of phase.
	since time.Time
	// last is how the process ended the last time.
	last string
}

func (r *record) running() bool {
	return r.phase == starting || r.phase == active || r.phase == stopping
}

func (r *record) enter(p phase, now time.Time) {
	if r.phase != p {
		r.phase, r.since = p, now
	}
}

// step decides what comes next. It is called after every event and on ticks; when
// it returns actNone there is nothing to do now.
func (r *record) step(f facts) action {
	if !r.wanted {
		return r.stepUnwanted(f)
	}
	switch r.phase {
	case backoff:
		if f.now.Before(r.until) {
			return actNone
		}
	case stopping:
		return r.stepStopping(f) // a restart: starts when the process has ended
	case starting, active:
		return actNone
	case inactive, waiting:
	}
	if !f.condition || !f.predecessors {
		r.enter(waiting, f.now)
		return actNone
	}
	return actStart
}

func (r *record) stepUnwanted(f facts) action {
	switch r.phase {
	case starting, active:
		if f.successors {
			return actNone
		}
		return r.term(f.now)
	case stopping:
		return r.stepStopping(f)
	case inactive, waiting, backoff:
	}
	r.enter(inactive, f.now)
	return actNone
}

func (r *record) stepStopping(f facts) action {
	if r.killed || f.now.Before(r.until) {
		return actNone
	}
	r.killed = true
	return actKill
}

// term begins the end of the process.
func (r *record) term(now time.Time) action {
	r.enter(stopping, now)
	r.until, r.killed = now.Add(r.unit.stopTimeout()), false
	return actTerm
}

// onStarted notes a new process.
func (r *record) onStarted(pid int, now time.Time) {
	r.pid = pid
	r.started++
	if r.unit.ReadySocket == "" {
		r.enter(active, now)
		return
	}
	r.enter(starting, now)
}

// onReady notes that the process of the given start is ready.
func (r *record) onReady(start int, now time.Time) {
	if r.phase == starting && r.started == start {
		r.enter(active, now)
	}
}

// onExited notes the end of the process, or that it could not be started.
func (r *record) onExited(how string, now time.Time) {
	r.pid, r.last = 0, how
	if r.phase == stopping {
		r.enter(inactive, now)
		return
	}
	r.enter(backoff, now)
	r.until = now.Add(r.unit.restartDelay())
}
