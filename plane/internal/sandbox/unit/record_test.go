package unit

import (
	"testing"
	"time"
)

func TestStep(t *testing.T) {
	now := time.Unix(1000, 0)
	ready := facts{now: now, condition: true, predecessors: true}
	with := func(change func(*facts)) facts { f := ready; change(&f); return f }
	for _, c := range []struct {
		name  string
		rec   record
		facts facts
		want  action
		phase phase
	}{
		{"starts when wanted", record{wanted: true}, ready, actStart, inactive},
		{"waits for its condition", record{wanted: true}, with(func(f *facts) { f.condition = false }), actNone, waiting},
		{"waits for predecessors", record{wanted: true}, with(func(f *facts) { f.predecessors = false }), actNone, waiting},
		{"starts when the wait is over", record{wanted: true, phase: waiting}, ready, actStart, waiting},
		{"stays when running", record{wanted: true, phase: active}, ready, actNone, active},
		{"keeps running when its condition goes", record{wanted: true, phase: active}, with(func(f *facts) { f.condition = false }), actNone, active},
		{"backs off", record{wanted: true, phase: backoff, until: now.Add(1)}, ready, actNone, backoff},
		{"starts again", record{wanted: true, phase: backoff, until: now}, ready, actStart, backoff},
		{"stops when unwanted", record{phase: active}, ready, actTerm, stopping},
		{"stops while starting", record{phase: starting}, ready, actTerm, stopping},
		{"waits for successors to stop", record{phase: active}, with(func(f *facts) { f.successors = true }), actNone, active},
		{"stops patiently", record{phase: stopping, until: now.Add(1)}, ready, actNone, stopping},
		{"kills at last", record{phase: stopping, until: now}, ready, actKill, stopping},
		{"kills once", record{phase: stopping, until: now, killed: true}, ready, actNone, stopping},
		{"kills in a restart, too", record{wanted: true, phase: stopping, until: now}, ready, actKill, stopping},
		{"gives up a back-off when unwanted", record{phase: backoff, until: now.Add(1)}, ready, actNone, inactive},
		{"gives up waiting when unwanted", record{phase: waiting}, ready, actNone, inactive},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.rec.step(c.facts); got != c.want || c.rec.phase != c.phase {
				t.Errorf("action %d in phase %d, want %d in %d", got, c.rec.phase, c.want, c.phase)
			}
		})
	}
}

func TestLifeOfAProcess(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &record{unit: Unit{Name: "x", ReadySocket: "/x", RestartDelay: time.Minute}, wanted: true}
	r.onStarted(7, now)
	if r.phase != starting || r.activeState() != "activating" {
		t.Fatalf("phase %d after the start", r.phase)
	}
	r.onReady(0, now)
	if r.phase != starting {
		t.Error("ready by news of an earlier process")
	}
	r.onReady(1, now)
	if r.phase != active {
		t.Error("not ready")
	}
	r.onExited("exited, status=1", now)
	if r.phase != backoff || !r.until.Equal(now.Add(time.Minute)) || r.pid != 0 {
		t.Errorf("after an exit: %+v", r)
	}
	r.onStarted(8, now)
	r.onReady(1, now)
	if r.phase != starting {
		t.Error("ready by news of the first process")
	}
	if r.term(now) != actTerm || r.activeState() != "deactivating" {
		t.Errorf("after term: %+v", r)
	}
	r.onExited("killed", now)
	if r.phase != inactive {
		t.Errorf("after a stop: phase %d", r.phase)
	}
}
