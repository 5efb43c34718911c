package core

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// lostLoop is the loop of an agent whose journal is new, on a host that has served claims.
func lostLoop(f *fakeExecutor) *Loop {
	l := testLoop(f, journal.InMemory())
	_ = l.Journal.Update(func(s *journal.State) { *s = journal.State{} })
	return l
}

// Without the journal there is no proof, whatever the claim is about, and nothing is bootstrapped.
func TestNothingIsProvedWithoutTheJournal(t *testing.T) {
	f := &fakeExecutor{nodeOf: "a"}
	s := runUntil(t, lostLoop(f), requested(3, "a", resets("")), ended("r"))
	if s.CleanProof != nil || s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != operation.ReasonNotClean ||
		!strings.Contains(s.Operation.Message, "unknown changes: the journal knows nothing") || !s.Operation.NextTry.IsZero() {
		t.Errorf("%+v, proof %+v", s.Operation, s.CleanProof)
	}
	if !strings.Contains(f.Calls(), "reset") {
		t.Error("what is found of a node was left")
	}
	for name, spec := range map[string]*infrav1.HostSpec{"free": spec(3, "", nil), "claimed": spec(3, "b", nil)} {
		l := lostLoop(&fakeExecutor{})
		if s := runUntil(t, l, spec, func(s journal.State, _ *infrav1.ObservedOperation) bool { return s.Lost != nil }); s.CleanProof != nil || *s.Lost.Generation != 3 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	f = &fakeExecutor{}
	var refused *infrav1.ObservedOperation
	runUntil(t, lostLoop(f), requested(3, "a", boot("b")), func(_ journal.State, r *infrav1.ObservedOperation) bool { refused = r; return r != nil })
	if refused.Reason != operation.ReasonRecordLost || strings.Contains(f.Calls(), "bootstrap") {
		t.Errorf("%+v, calls %q", refused, f.Calls())
	}
}

// A damaged journal proves nothing either, whatever it still tells.
func TestNothingIsProvedWithADamagedJournal(t *testing.T) {
	l := testLoop(&fakeExecutor{}, journal.InMemory())
	_ = l.Journal.Update(func(s *journal.State) {
		*s = journal.State{HostUID: "host", ClaimGeneration: 3, ClaimID: "a", BootstrappedClaimID: "a", Residue: journal.ResidueCommands, ResidueGeneration: 3, Lost: &journal.Loss{Why: "damaged"}}
	})
	if s := runUntil(t, l, requested(3, "a", resets("")), ended("r")); s.CleanProof != nil || s.Operation.State != infrav1.OperationFailed {
		t.Errorf("%+v, proof %+v", s.Operation, s.CleanProof)
	}
}

// The host itself tells that it is the node of the claim, and runs on.
func TestNodeIsRecognizedWithoutTheJournal(t *testing.T) {
	f := &fakeExecutor{nodeOf: "a"}
	desired := boot("b")
	desired.Bootstrapped, desired.VirtualIP, desired.VirtualIPPort = ptr.To(true), "10.0.0.9", 6443
	l := lostLoop(f)
	s := runUntil(t, l, requested(3, "a", desired), ended("b"))
	if s.Operation.State != infrav1.OperationSucceeded || s.BootstrappedClaimID != "a" || s.Residue != journal.ResidueCommands || s.VirtualIP != "10.0.0.9" || s.Lost == nil {
		t.Errorf("%+v", s)
	}
	if s = runUntil(t, l, requested(3, "a", runs(infrav1.HostDesiredUpgraded)), ended("u")); s.Operation.State != infrav1.OperationSucceeded || strings.Contains(f.Calls(), "bootstrap") {
		t.Errorf("%+v, calls %q", s.Operation, f.Calls())
	}
	// Of a Host that does not have the claim, it is told and left alone.
	f = &fakeExecutor{nodeOf: "a"}
	s = runUntil(t, lostLoop(f), spec(3, "", nil), func(s journal.State, _ *infrav1.ObservedOperation) bool { return s.Lost != nil })
	if s.BootstrappedClaimID != "a" || f.Calls() != "" {
		t.Errorf("%+v, calls %q", s, f.Calls())
	}
}

func TestConfirmationByAnOperator(t *testing.T) {
	free := func(generation int64, word *int64) *infrav1.HostSpec {
		s := spec(generation, "", nil)
		s.ClearedGeneration = word
		return s
	}
	claimed := func(generation int64, word *int64) *infrav1.HostSpec {
		s := requested(generation, "new", boot("new"))
		s.ClearedGeneration = word
		return s
	}
	left := journal.State{HostUID: "host", ClaimGeneration: 3, ClaimID: "a", Residue: journal.ResidueCommands, ResidueGeneration: 3, BootstrappedClaimID: "a"}
	lost := journal.State{HostUID: "host", ClaimGeneration: 3, Lost: &journal.Loss{Why: "gone", Generation: ptr.To[int64](3)}}
	unseen := journal.State{HostUID: "host", ClaimGeneration: 3, Lost: &journal.Loss{Why: "gone"}}
	for name, c := range map[string]struct {
		state journal.State
		spec  *infrav1.HostSpec
		taken bool
	}{
		"no word":                          {left, free(3, nil), false},
		"for what is left":                 {left, free(3, ptr.To[int64](3)), true},
		"for what is left, seen later":     {left, claimed(4, ptr.To[int64](3)), true},
		"for an earlier claim":             {left, free(3, ptr.To[int64](2)), false},
		"for the claim before this one":    {left, claimed(3, ptr.To[int64](2)), false},
		"of a restored management cluster": {left, free(2, ptr.To[int64](2)), false},
		"for another Host":                 {left, free(0, ptr.To[int64](0)), false},
		"for what was lost":                {lost, free(3, ptr.To[int64](3)), true},
		"before it was lost":               {lost, claimed(3, ptr.To[int64](2)), false},
		"before the loss was seen":         {unseen, free(3, ptr.To[int64](3)), false},
		"nothing is left":                  {journal.State{HostUID: "host", ClaimGeneration: 3}, free(3, ptr.To[int64](3)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Plan(c.state, c.spec, false).Kind == ActionForget; got != c.taken {
				t.Errorf("taken: %t", got)
			}
		})
	}
	// It is taken once, and the agent proves what it can see from then on.
	f := &fakeExecutor{}
	l := testLoop(f, journal.InMemory())
	_ = l.Journal.Update(func(s *journal.State) { *s = left })
	s := runUntil(t, l, free(3, ptr.To[int64](3)), func(s journal.State, _ *infrav1.ObservedOperation) bool { return s.CleanProof != nil })
	if s.Residue != journal.ResidueNone || s.BootstrappedClaimID != "" || f.Calls() != "verify" {
		t.Errorf("%+v, calls %q", s, f.Calls())
	}
	// What is found of a node stands against it.
	l = testLoop(&fakeExecutor{dirty: true}, journal.InMemory())
	_ = l.Journal.Update(func(s *journal.State) { *s = left })
	if s = runUntil(t, l, free(3, ptr.To[int64](3)), func(s journal.State, _ *infrav1.ObservedOperation) bool { return len(s.Found) > 0 }); s.CleanProof != nil {
		t.Errorf("%+v", s)
	}
}

// An operator has a host reset that no machine has: one of a former Host, too.
func TestResetWithoutAClaim(t *testing.T) {
	order := func(generation int64) *infrav1.Host {
		h := hostWith(spec(generation, "", resets("")))
		h.UID = types.UID("made again")
		return h
	}
	left := journal.State{HostUID: "host", ClaimGeneration: 3, ClaimID: "a", Residue: journal.ResidueCommands, ResidueGeneration: 3, BootstrappedClaimID: "a"}
	f := &fakeExecutor{dirty: true}
	l := testLoop(f, journal.InMemory())
	_ = l.Journal.Update(func(s *journal.State) { *s = left })
	// An order that does not know what is on record is refused, with a word.
	var refused *infrav1.ObservedOperation
	runUntilOn(t, l, order(0), func(_ journal.State, r *infrav1.ObservedOperation) bool { refused = r; return r != nil })
	if refused.Reason != operation.ReasonStaleClaim || !strings.Contains(refused.Message, "`slipway host reset`") || f.Calls() != "" || refused.ClaimID != "a" {
		t.Fatalf("%+v, calls %q", refused, f.Calls())
	}
	s := runUntilOn(t, l, order(4), ended("r"))
	if s.Operation.State != infrav1.OperationSucceeded || s.CleanProof == nil || s.CleanProof.ClaimGeneration != 4 || s.HostUID != "made again" {
		t.Fatalf("%+v, proof %+v", s.Operation, s.CleanProof)
	}
	// Given twice, it is carried out once.
	calls := f.Calls()
	l.Observe(order(4))
	if Plan(l.Journal.State(), &order(4).Spec, true).Kind != ActionNone || f.Calls() != calls {
		t.Errorf("calls %q", f.Calls())
	}
	if s = runUntilOn(t, l, hostWith(requested(5, "new", boot("b"))), ended("b")); s.Operation.State != infrav1.OperationSucceeded {
		t.Errorf("claimed afterwards: %+v", s.Operation)
	}
}

// A Host that was deleted after its reset failed, and enrolled again, asks for no reset: what is on record is no
// node, so that nobody is told to adopt it, and no try that will not come.
func TestFailedResetOfAFormerHost(t *testing.T) {
	f, j := &fakeExecutor{leftovers: []string{"mount /var/lib/kubelet/pods/x"}}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	if node := j.State().NodeOf(); node != "a" {
		t.Fatalf("node of %q", node)
	}
	if s := runUntil(t, testLoop(f, j), requested(1, "a", resets("")), ended("r")); s.NodeOf() != "" || s.BootstrappedClaimID != "a" || s.Operation.NextTry.IsZero() {
		t.Fatalf("node of %q; %+v", s.NodeOf(), s.Operation)
	}
	again := hostWith(spec(0, "", nil))
	again.UID = "another"
	tried := f.Calls()
	s := runUntilOn(t, testLoop(f, j), again, func(s journal.State, _ *infrav1.ObservedOperation) bool { return s.Operation.NextTry.IsZero() })
	if s.Operation.State != infrav1.OperationFailed || s.Residue == journal.ResidueNone || f.Calls() != tried {
		t.Errorf("%+v, calls %q", s.Operation, f.Calls())
	}
}

// A reset that fails goes on, more and more slowly, also after a restart, and ends with a proof.
func TestFailedResetGoesOn(t *testing.T) {
	const failures = 2 * maxTries
	f := &fakeExecutor{dirty: true}
	for range failures {
		f.resetErrs = append(f.resetErrs, &operation.StepError{Step: "reset: container", Err: context.DeadlineExceeded})
	}
	j := journal.InMemory()
	var waits []time.Duration
	restart := func() *Loop {
		l := testLoop(f, j)
		clock := time.Unix(1_000_000_000, 0)
		if op := j.State().Operation; op != nil {
			clock = op.NextTry.Add(-time.Second)
		}
		l.Now = func() time.Time { return clock }
		passed := make(chan time.Time)
		close(passed)
		l.After = func(d time.Duration) <-chan time.Time {
			waits, clock = append(waits, d), clock.Add(d)
			return passed
		}
		return l
	}
	failed := 0
	s := runUntil(t, restart(), requested(1, "a", resets("")), func(s journal.State, _ *infrav1.ObservedOperation) bool {
		if s.Operation != nil {
			failed = s.Operation.Failures
		}
		return failed == maxTries+1
	})
	if s.Operation.State != infrav1.OperationFailed || s.Operation.FailedStep != "reset: container" || !strings.Contains(s.Operation.Message, "step reset: container failed") {
		t.Fatalf("%+v", s.Operation)
	}
	tries := strings.Count(f.Calls(), "reset")
	before := len(waits)
	s = runUntil(t, restart(), requested(1, "a", resets("")), func(s journal.State, _ *infrav1.ObservedOperation) bool { return s.CleanProof != nil })
	if s.Operation.State != infrav1.OperationSucceeded || s.Operation.FailedStep != "" || !s.Operation.NextTry.IsZero() || s.CleanProof.ClaimGeneration != 1 {
		t.Errorf("%+v, proof %+v", s.Operation, s.CleanProof)
	}
	if got := strings.Count(f.Calls(), "reset"); got != failures+1 || tries != maxTries+1 {
		t.Errorf("%d tries before the restart and %d at all", tries, got)
	}
	if waits[before] != time.Second {
		t.Errorf("a restart waits %s until a try that is a second away", waits[before])
	}
	waits = slices.Delete(waits, before, before+1)
	for i := 1; i < len(waits); i++ {
		if waits[i] < waits[i-1] || waits[i] > resetLast {
			t.Errorf("the waits are %v", waits)
			break
		}
	}
	// Somebody who cannot wait asks again.
	j = journal.InMemory()
	f = &fakeExecutor{dirty: true, resetErrs: []error{context.DeadlineExceeded}}
	l := testLoop(f, j)
	again := resets("")
	again.OperationID = "again"
	runUntil(t, l, requested(1, "a", resets("")), func(s journal.State, _ *infrav1.ObservedOperation) bool {
		return s.Operation != nil && s.Operation.Failures == 1
	})
	l.Now = func() time.Time { return time.Unix(0, 0) } // no wait ends
	if s = runUntil(t, l, requested(1, "a", again), ended("again")); s.CleanProof == nil {
		t.Errorf("%+v", s.Operation)
	}
}
