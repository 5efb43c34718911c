package core

import (
	"slices"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

const bundle = "sha256:bundle"

func withBundle(d *infrav1.HostDesired) *infrav1.HostDesired {
	d.Version, d.ReleaseDigest = "v1.36.3", bundle
	return d
}

// The version comes before all else of a bootstrap and of an upgrade, as the operation names
// it, and a failure is tried again until it is mended: it makes no operation fail.
func TestVersionIsInstalledFirst(t *testing.T) {
	unavailable := &operation.Error{Reason: operation.ReasonSoftwareUnavailable, Message: "no space", Retry: operation.RetryLater}
	f, j := &fakeExecutor{installErrs: slices.Repeat([]error{unavailable}, 3*maxTries)}, journal.InMemory()
	told := false
	s := runUntil(t, testLoop(f, j), requested(1, "a", withBundle(boot("b"))), func(s journal.State, _ *infrav1.ObservedOperation) bool {
		told = told || s.Operation != nil && s.Operation.Reason == operation.ReasonSoftwareUnavailable && s.Operation.Message == "no space"
		return ended("b")(s, nil)
	})
	if s.Operation.State != infrav1.OperationSucceeded || len(f.installs) != 3*maxTries+1 || f.installs[0] != "v1.36.3@"+bundle || !told {
		t.Errorf("operation %+v, installed %q, told %t", s.Operation, f.installs, told)
	}
	if calls := f.Calls(); calls[len(calls)-len("install bootstrap:data"):] != "install bootstrap:data" {
		t.Errorf("calls %q", calls)
	}
	f.calls = nil
	s = runUntil(t, testLoop(f, j), requested(1, "a", withBundle(runs(infrav1.HostDesiredUpgraded))), ended("u"))
	if s.Operation.State != infrav1.OperationSucceeded || f.Calls() != "install upgrade:v1.36.3" {
		t.Errorf("operation %+v, calls %q", s.Operation, f.Calls())
	}
}

// What nothing uses is removed from a free host and from a node, and never while a claim
// waits for its operation, or after an operation that failed.
func TestTidyWaitsForAHostAtRest(t *testing.T) {
	done := func(phase infrav1.HostDesiredPhase, state infrav1.OperationState) journal.State {
		return journal.State{Operation: &journal.Operation{ID: "u", Phase: phase, State: state}}
	}
	for name, c := range map[string]struct {
		state journal.State
		spec  *infrav1.HostSpec
		want  []string
	}{
		"no Host":                   {journal.State{}, nil, nil},
		"free":                      {journal.State{}, spec(1, "", nil), []string{""}},
		"free, at work":             {done(infrav1.HostDesiredReset, infrav1.OperationRunning), spec(1, "", nil), nil},
		"claimed, nothing to do":    {journal.State{}, spec(1, "a", nil), nil},
		"claimed, not begun":        {journal.State{}, spec(1, "a", runs(infrav1.HostDesiredUpgraded)), nil},
		"at work":                   {done(infrav1.HostDesiredUpgraded, infrav1.OperationRunning), spec(1, "a", runs(infrav1.HostDesiredUpgraded)), nil},
		"failed":                    {done(infrav1.HostDesiredUpgraded, infrav1.OperationFailed), spec(1, "a", runs(infrav1.HostDesiredUpgraded)), nil},
		"done":                      {done(infrav1.HostDesiredUpgraded, infrav1.OperationSucceeded), spec(1, "a", runs(infrav1.HostDesiredUpgraded)), []string{"v1.36.3"}},
		"reset, the claim not gone": {done(infrav1.HostDesiredReset, infrav1.OperationSucceeded), spec(1, "a", resets("")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			f, j := &fakeExecutor{}, journal.InMemory()
			if err := j.Update(func(s *journal.State) { *s = c.state }); err != nil {
				t.Fatal(err)
			}
			l := testLoop(f, j)
			for range 2 {
				l.tidy(t.Context(), c.spec)
			}
			if !slices.Equal(f.tidied, c.want) {
				t.Errorf("tidied with %q in use, want %q", f.tidied, c.want)
			}
		})
	}
}

// Each operation may leave something behind, and one that comes while the host is tidied is not
// missed.
func TestTidyFollowsEachOperation(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	l := testLoop(f, j)
	next := []*infrav1.HostDesired{withBundle(runs(infrav1.HostDesiredUpgraded)), resets("")}
	f.onTidy = func() {
		if len(next) == 0 {
			return
		}
		l.Observe(hostWith(requested(1, "a", next[0])))
		next = next[1:]
		// Whoever waits for the end of this hears that.
		time.Sleep(10 * time.Millisecond)
	}
	s := runUntil(t, l, requested(1, "a", withBundle(boot("b"))), ended("r"))
	if s.Operation.State != infrav1.OperationSucceeded || !slices.Equal(f.tidied, []string{"v1.36.3", "v1.36.3"}) {
		t.Errorf("operation %+v, tidied with %q in use", s.Operation, f.tidied)
	}
}
