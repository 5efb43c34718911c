package selfupdate

import (
	"time"

	"golang.org/x/mod/semver"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/version"
)

// Order is what the Host asks for.
type Order struct{ Version, ReleaseDigest string }

// situation is all that the next step depends on.
type situation struct {
	// own is the version of this agent.
	own string
	// may says whether this agent updates itself.
	may bool
	// heard is true once the Host was shown; order is what it asks for, nil for nothing.
	heard bool
	order *Order
	// record of what was done so far; nil for nothing.
	record *Record
	// prepared says that this process has put the ordered program beside its own.
	prepared bool
	// busy names the operation at work.
	busy string
	now  time.Time
	// fetchAt is when a fetch that failed is tried again.
	fetchAt time.Time
	// retry is the pause after the first trial.
	retry time.Duration
}

type deed int

const (
	// rest is to do nothing until something changes.
	rest deed = iota
	// forget is to remove what is there of an update.
	forget
	// settle is to write down that a trial was cut short.
	settle
	// prepare is to fetch the program and put it beside the own one.
	prepare
	// try is to begin a trial.
	try
)

type decision struct {
	deed deed
	// again is when to look again; zero for not before something changes.
	again time.Time
	// report is what to tell; nil for nothing.
	report *Record
}

const (
	// busyPoll is how often it is looked whether an operation has ended.
	busyPoll = 5 * time.Second
	// keyPoll is how often it is looked whether an agent that does not update itself may by
	// now, as by a key that was brought.
	keyPoll = time.Minute
)

// plan decides what comes next.
func plan(s situation) decision {
	r := s.record
	switch {
	case r != nil && !newer(r.Version, s.own):
		// It was confirmed, or somebody else brought a newer one.
		return decision{deed: forget}
	case !s.heard && s.may:
		return decision{report: r}
	case !s.may || s.order == nil || !newer(s.order.Version, s.own):
		if r != nil {
			return decision{deed: forget}
		}
		if s.order != nil && !s.may {
			return decision{again: s.now.Add(keyPoll)}
		}
		return decision{}
	case r == nil:
		r = &Record{Version: s.order.Version, ReleaseDigest: s.order.ReleaseDigest, State: infrav1.HostAgentUpdateFetching}
	case !r.of(*s.order):
		return decision{deed: forget}
	case r.State == infrav1.HostAgentUpdateFailed:
		return decision{report: r}
	case r.State == infrav1.HostAgentUpdateTrying:
		return decision{deed: settle, report: r}
	}
	return s.ahead(r)
}

// ahead decides on an order that is followed.
func (s situation) ahead(r *Record) decision {
	// A time that is further away than any pause is of a clock that was wrong.
	if wait := r.NextTry.Sub(s.now); wait > 0 && wait <= pause(max(r.Attempts, 1), s.retry) {
		return decision{again: r.NextTry, report: r}
	}
	if s.now.Before(s.fetchAt) {
		return decision{again: s.fetchAt, report: r}
	}
	if s.busy != "" {
		waits := *r
		waits.Message = "waits until no operation is at work on the host: " + s.busy
		return decision{again: s.now.Add(busyPoll), report: &waits}
	}
	if !s.prepared {
		return decision{deed: prepare, report: r}
	}
	return decision{deed: try, report: r}
}

// versioned says whether versions can be compared with this one: not with a build that nobody
// gave a version.
func versioned(v string) bool { return semver.IsValid(v) && v != version.Unset }

// newer says whether an agent of the version b goes to a.
func newer(a, b string) bool { return versioned(a) && versioned(b) && semver.Compare(a, b) > 0 }
