package reset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// entries are what is there of one kind: name → fingerprint, which is never empty.
type entries = map[string]string

// trace is one kind of state that a node leaves on its host. Recording, reset and proof all go
// over the table of traces, and what a trace removes it has found by look, which is the proof, too.
type trace struct {
	// kind names the trace in the record and in clean.ignore, word in messages.
	kind, word string
	// look lists what is there. An error means that it is not known.
	look func(context.Context) (entries, error)
	// always: all that is there is a node's, whatever was there before. Such a trace is not recorded.
	always bool
	// node: without a record, an entry is a node's by its name. nil: none is.
	node func(name, now string) bool
	// adopted: likewise, where a node is known to run, which is adopted; networks are those of its cluster.
	adopted func(name, now string, networks []netip.Prefix) bool
	// own: a change is the machine's own, by a rule. nil: none is.
	own func(c change, before, now entries) bool
	// device: the interface that an entry is on, and that it goes with. nil: none.
	device func(name, now string) string
	// inside: an entry that came goes with another one that came.
	inside func(name string, came func(string) bool) bool
	// gone: an entry that went is drift, too.
	gone bool
	// mine: whether remove and restore may touch it. nil: all. What they may not touch is named.
	mine func(c change) bool
	// remove and restore are nil for what is only named.
	remove  func(ctx context.Context, names []string) error
	restore func(ctx context.Context, before entries) error
	// say puts an entry into words; nil: word and name.
	say func(c change) string
}

// change is an entry that is not what it was: before is empty for one that came, now for one
// that went.
type change struct{ name, before, now string }

// Ignored is a change that the operator has the reset leave alone, and the proof not name.
type Ignored struct {
	// Kind of trace, and Name as path.Match has it; a pattern that ends in /** is for all below.
	Kind, Name string
	// Reason is written to the agent's log with each change that is ignored.
	Reason string
}

func (i Ignored) matches(kind, name string) bool {
	if i.Kind != kind {
		return false
	}
	if dir, all := strings.CutSuffix(i.Name, "/**"); all && (name == dir || strings.HasPrefix(name, dir+"/")) {
		return true
	}
	ok, _ := path.Match(i.Name, name)
	return ok
}

// diff returns what differs from the record, by name. before is nil when there is no record: then
// names tell what is a node's.
func (c Cleaner) diff(t trace, before, now entries) []change {
	var all []change
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, known := before[name]
		switch {
		case t.always, before == nil && t.node != nil && t.node(name, now[name]):
			all = append(all, change{name: name, now: now[name]})
		case before != nil && (!known || was != now[name]):
			all = append(all, change{name, was, now[name]})
		}
	}
	if t.gone {
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if _, there := now[name]; !there {
				all = append(all, change{name: name, before: before[name]})
			}
		}
	}
	all = slices.DeleteFunc(all, func(ch change) bool { return t.own != nil && before != nil && t.own(ch, before, now) })
	return slices.DeleteFunc(all, func(ch change) bool {
		i := slices.IndexFunc(c.Ignore, func(i Ignored) bool { return i.matches(t.kind, ch.name) })
		if i >= 0 {
			c.Log.Info("left alone, as the operator wants", "kind", t.kind, "name", ch.name, "reason", c.Ignore[i].Reason)
		}
		return i >= 0
	})
}

// changes looks, and compares with the record.
func (c Cleaner) changes(ctx context.Context, t trace, rec *record) ([]change, error) {
	if rec.of(t) == nil && !t.always && t.node == nil {
		return nil, nil // nothing to compare with
	}
	now, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	return c.diff(t, rec.of(t), now), nil
}

// undo restores first what changed, then removes what came: a rule of routing that moved must be
// there before the other one goes.
func (c Cleaner) undo(ctx context.Context, t trace, rec *record) error {
	if t.remove == nil && t.restore == nil {
		return nil
	}
	all, err := c.changes(ctx, t, rec)
	if err != nil {
		return err
	}
	var came []string
	changed := entries{}
	for _, ch := range all {
		switch {
		case t.mine != nil && !t.mine(ch):
		case ch.before == "":
			came = append(came, ch.name)
		default:
			changed[ch.name] = ch.before
		}
	}
	var restored, removed error
	if t.restore != nil && len(changed) > 0 {
		restored = t.restore(ctx, changed)
	}
	if t.remove != nil && len(came) > 0 {
		if removed = t.remove(ctx, came); restored != nil {
			restored = t.restore(ctx, changed) // what came was in the way
		}
	}
	return errors.Join(restored, removed)
}

// left names what is not as it was.
func (c Cleaner) left(ctx context.Context, t trace, rec *record) ([]string, error) {
	all, err := c.changes(ctx, t, rec)
	if err != nil {
		return nil, err
	}
	came := map[string]bool{}
	for _, ch := range all {
		if ch.before == "" {
			came[ch.name] = true
		}
	}
	var left []string
	for _, ch := range all {
		if t.inside == nil || ch.before != "" || !t.inside(ch.name, func(name string) bool { return came[name] }) {
			left = append(left, shown(t.words(ch)))
		}
	}
	return left, nil
}

func (t trace) words(ch change) string {
	switch {
	case t.say != nil:
		return t.say(ch)
	case ch.before == "":
		return t.word + " " + ch.name
	case ch.now == "":
		return t.word + " " + ch.name + ", which was there before, is gone"
	default:
		return t.word + " " + ch.name + ", which is not what it was before"
	}
}

// Baseline records what the host looks like before a bootstrap.
func (c Cleaner) Baseline(ctx context.Context) (*journal.Baseline, error) {
	return c.baseline(ctx, func(trace, string, string) bool { return false })
}

// NodeBaseline is the Baseline of a host that is a node already. What was there before the node nobody knows: names, and
// the networks of the cluster's pods and services, have to tell what is Kubernetes'.
func (c Cleaner) NodeBaseline(ctx context.Context, networks []netip.Prefix) (*journal.Baseline, error) {
	links := map[string]bool{} // of the node: interfaces come before what is on them
	b, err := c.baseline(ctx, func(t trace, name, now string) bool {
		is := t.node != nil && t.node(name, now) || t.adopted != nil && t.adopted(name, now, networks) || t.device != nil && links[t.device(name, now)]
		if is && t.kind == kindInterface {
			links[name] = true
		}
		return is
	})
	if err != nil {
		return nil, err
	}
	// Whoever may log in was let in by the operator.
	b.Logins, b.Node = nil, true
	return b, nil
}

// baseline records all but what is a node's.
func (c Cleaner) baseline(ctx context.Context, node func(t trace, name, now string) bool) (*journal.Baseline, error) {
	homes, err := c.homes()
	if err != nil {
		return nil, fmt.Errorf("record what is on the host: %w", err)
	}
	rec := &record{Traces: map[string]entries{}, Homes: homes}
	for _, t := range append(c.traces(ctx, journal.State{}, nil), c.imageTrace()) {
		if t.always {
			continue
		}
		found, err := t.look(ctx)
		if err != nil {
			return nil, fmt.Errorf("record what is on the host: %w", err)
		}
		if found == nil {
			found = entries{}
		}
		maps.DeleteFunc(found, func(name, now string) bool { return node(t, name, now) })
		rec.Traces[t.kind] = found
	}
	return c.keep(rec)
}

// Verify returns what is left of a node on the host, in words for a message.
func (c Cleaner) Verify(ctx context.Context, state journal.State) ([]string, error) {
	rec, err := c.open(state.Baseline)
	var left []string
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		left, err = append(left, lost.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, t := range c.traces(ctx, state, rec) {
		found, err := c.left(ctx, t, rec)
		left, errs = append(left, found...), append(errs, err)
	}
	found, err := c.leftLogins(state)
	return append(left, found...), errors.Join(append(errs, err)...)
}

// undoAll are the steps of the reset over the table of traces.
func (c Cleaner) undoAll(ctx context.Context, progress operation.Progress) ([]step, error) {
	state := progress.State()
	rec, err := c.open(state.Baseline)
	if lost := (*lostError)(nil); errors.As(err, &lost) {
		err = nil // what names tell goes; the proof is another matter
	}
	var steps []step
	for _, t := range c.traces(ctx, state, rec) {
		if t.kind == kindFile {
			// Empty directories are no trace, and must be empty to go.
			steps = append(steps, step{"reset: Kubernetes", func() error { return errors.Join(c.emptyDirectories(rec), c.removePluginConfigs(rec)) }})
		}
		if t.remove != nil || t.restore != nil {
			steps = append(steps, step{"reset: " + t.kind, func() error { return c.undo(ctx, t, rec) }})
		}
	}
	return steps, err
}
