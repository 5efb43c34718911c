package selfupdate

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// ErrReady means that a new agent is ready for its trial, which Try makes.
var ErrReady = errors.New("another version of slipway-agent is ready for its trial")

// Options of an Updater. All are required.
type Options struct {
	// StateDir of the agent.
	StateDir string
	// Program is the path of the agent, and Version what this one is.
	Program, Version string
	// May says whether this agent is told to update itself, and can.
	May func() bool
	// Keys are those of which one must have signed a bundle.
	Keys func() (hostbundle.PublicKeys, error)
	// Sources are asked in their order.
	Sources func(ctx context.Context) ([]software.Source, error)
	// Busy names the operation at work on the host; empty when none is.
	Busy func() string
	// Reachable returns an error while this agent could not reach the management cluster
	// either.
	Reachable func(ctx context.Context) error
	// Log names the host, once that is known.
	Log func() *slog.Logger
}

// Updater follows what the Host says about the version of its agent. It implements
// link.AgentUpdate.
type Updater struct {
	options Options
	limits  limits
	now     func() time.Time
	// rest is wait but in tests.
	rest func(ctx context.Context, d time.Duration, bounded bool, sooner <-chan struct{})

	// What follows is of whoever calls Run and Try, one after the other.
	record   *Record
	prepared bool
	// fetchAt is when a fetch that failed is tried again, after so many failures on end.
	fetchAt  time.Time
	failures int
	// refused is the order of which the log says that it is not followed.
	refused Order

	mu     sync.Mutex
	heard  bool
	order  *Order
	status *infrav1.HostAgentUpdate
	// ordered is closed when the order changes, told when the status does.
	ordered, told chan struct{}
}

// New returns an Updater that goes on where an earlier process was. onTrial is that of an
// agent which is being tried, for which only the report counts.
func New(o Options, onTrial *Trial) *Updater {
	u := &Updater{options: o, limits: limitsOf(hurry), now: time.Now, rest: wait, ordered: make(chan struct{}), told: make(chan struct{})}
	var err error
	if u.record, err = Read(o.StateDir); err != nil {
		o.Log().Error("counting the trials of an update anew", "err", err)
	}
	if onTrial != nil {
		u.status = u.record.report()
		return u
	}
	s, _ := u.situation()
	u.status = plan(s).report.report()
	return u
}

// Served is called with each version of the Host. It does not block.
func (u *Updater) Served(h *infrav1.Host) {
	var order *Order
	if a := h.Spec.Agent; a != nil {
		order = &Order{a.Version, a.ReleaseDigest}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if same := order == nil && u.order == nil || order != nil && u.order != nil && *order == *u.order; same && u.heard {
		return
	}
	u.heard, u.order = true, order
	close(u.ordered)
	u.ordered = make(chan struct{})
}

// Status is what the Host shows of an update; nil when there is nothing to tell.
func (u *Updater) Status() *infrav1.HostAgentUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status.DeepCopy()
}

// Changed returns a channel that is closed at the next change of the status.
func (u *Updater) Changed() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.told
}

func (u *Updater) tell(r *Record) {
	status := r.report()
	u.mu.Lock()
	defer u.mu.Unlock()
	if (status == nil) == (u.status == nil) && (status == nil || *status == *u.status) {
		return
	}
	u.status = status
	close(u.told)
	u.told = make(chan struct{})
}

// situation also returns a channel that is closed when the order changes.
func (u *Updater) situation() (situation, <-chan struct{}) {
	s := situation{
		own: u.options.Version, may: u.options.May(), busy: u.options.Busy(), now: u.now(),
		record: u.record, prepared: u.prepared, fetchAt: u.fetchAt, retry: u.limits.retry,
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	s.heard, s.order = u.heard, u.order
	return s, u.ordered
}

// Run brings the ordered program beside the own one. It blocks until that can be tried:
// ErrReady, or until the context ends, with its cause.
func (u *Updater) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		s, ordered := u.situation()
		next := plan(s)
		u.tell(next.report)
		u.refuse(s)
		var err error
		switch next.deed {
		case rest:
			u.rest(ctx, next.again.Sub(s.now), !next.again.IsZero(), ordered)
		case forget:
			err = u.forget()
		case settle:
			err = u.settle(s.record.failed("the trial was cut short, as by a crash of the host or a power cut", s.now, s.retry))
		case prepare:
			err = u.prepare(ctx, *s.order, next.report, ordered)
		case try:
			return ErrReady
		}
		if err != nil && ctx.Err() == nil {
			u.options.Log().Error("cannot keep the record of an update, trying again", "err", err)
			u.rest(ctx, u.limits.fetch, true, nil)
		}
	}
	return context.Cause(ctx)
}

// wait ends with the context, after a time if that is bounded, or sooner.
func wait(ctx context.Context, d time.Duration, bounded bool, sooner <-chan struct{}) {
	var after <-chan time.Time
	if bounded {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-ctx.Done():
	case <-sooner:
	case <-after:
	}
}

// refuse tells the log once why an order is not followed.
func (u *Updater) refuse(s situation) {
	if s.order == nil || s.order.Version == s.own || s.may && newer(s.order.Version, s.own) || *s.order == u.refused {
		return
	}
	u.refused = *s.order
	why := "it is not newer; to go back, replace the program on the host and restart it"
	if !s.may {
		why = "this agent does not update itself: its configuration, a package manager or its place on the host says so"
	}
	u.options.Log().Info("not going to another version of slipway-agent", "version", s.own, "ordered", s.order.Version, "why", why)
}

// save keeps a record, and tells of it.
func (u *Updater) save(r Record) error {
	if err := durable.WriteJSON(recordPath(u.options.StateDir), r, 0o600); err != nil {
		return err
	}
	u.record = &r
	u.tell(u.record)
	return nil
}

// settle keeps the outcome of a trial: the program that failed goes first.
func (u *Updater) settle(r Record) error {
	u.prepared = false
	if err := u.removeNext(); err != nil {
		return err
	}
	u.options.Log().Warn("the update of slipway-agent did not succeed", "version", r.Version, "state", r.State, "message", r.Message)
	return u.save(r)
}

// forget removes all of an update; the record, which names it, last.
func (u *Updater) forget() error {
	u.prepared, u.fetchAt, u.failures = false, time.Time{}, 0
	if err := errors.Join(staging(u.options.StateDir).Remove(), u.removeNext()); err != nil {
		return err
	}
	if err := durable.Remove(recordPath(u.options.StateDir)); err != nil {
		return err
	}
	u.record = nil
	return nil
}

func (u *Updater) removeNext() error {
	return errors.Join(durable.Remove(u.part()), durable.Remove(u.next()))
}

// limits of time.
type limits struct {
	// start is how long a new agent may take to start, report until it is accepted by its
	// management cluster, stop until it ends when it is told to.
	start, report, stop time.Duration
	// grace is for the word that this agent is to end, as it may come to the new one first.
	grace time.Duration
	// check is how long it may take to tell its version.
	check time.Duration
	// fetch is the pause after a fetch that failed, which doubles up to maxFetch.
	fetch, maxFetch time.Duration
	// retry is the pause after the first trial that failed; it grows with each.
	retry time.Duration
}

// hurry shortens start, report and retry, in this order with commas between them, in agents
// that tests build; the linker sets it.
var hurry string

func limitsOf(hurry string) limits {
	l := limits{start: 30 * time.Second, report: 5 * time.Minute, stop: 10 * time.Second, grace: time.Second, check: 30 * time.Second,
		fetch: time.Minute, maxFetch: 30 * time.Minute, retry: 10 * time.Minute}
	for i, text := range strings.Split(hurry, ",") {
		if d, err := time.ParseDuration(text); err == nil && i < 3 {
			*[]*time.Duration{&l.start, &l.report, &l.retry}[i] = d
		}
	}
	return l
}

// afterFailure is the pause after so many fetches that failed, up to half of it shorter at
// random: hosts that lost a source together do not come back together.
func (l limits) afterFailure(failures int) time.Duration {
	d := min(l.fetch<<min(failures-1, 10), l.maxFetch)
	return d - rand.N(d/2+1)
}

func environment() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, Variable+"=") {
			kept = append(kept, v)
		}
	}
	return kept
}
