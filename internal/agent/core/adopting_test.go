package core

import (
	"context"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

func adoption() *infrav1.HostDesired {
	return &infrav1.HostDesired{Phase: infrav1.HostDesiredAdopted, OperationID: "u", ProviderID: "id"}
}

func (f *fakeExecutor) Adopt(ctx context.Context, o operation.Adoption, p operation.Progress) error {
	f.call("adopt:" + o.ProviderID)
	err := operation.Step(p, "adopt: check", func() error { return next(&f.adoptErrs) })
	if err == nil && f.hang != nil {
		close(f.hang)
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (f *fakeExecutor) Disown() error { f.call("disown"); return nil }

var errBroken = &operation.Error{Reason: operation.ReasonStepFailed, Message: "broken"}

// A node that is to be adopted is somebody else's: whatever fails, it is not reset.
func TestFailedAdoptionResetsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		errs  []error
		calls string
		state infrav1.OperationState
	}{
		"mended":       {[]error{&operation.Error{Reason: operation.ReasonKubeletInactive, Retry: operation.RetryLater}, errBroken}, "adopt:id adopt:id adopt:id", infrav1.OperationSucceeded},
		"refused":      {[]error{&operation.Error{Reason: operation.ReasonOtherCluster, Retry: operation.RetryNever}}, "adopt:id", infrav1.OperationFailed},
		"fails always": {[]error{errBroken, errBroken, errBroken, errBroken, errBroken}, "adopt:id adopt:id adopt:id adopt:id adopt:id", infrav1.OperationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeExecutor{adoptErrs: c.errs, dirty: true}
			s := runUntil(t, testLoop(f, journal.InMemory()), spec(1, "a", adoption()), ended("u"))
			if f.Calls() != c.calls || s.Operation.State != c.state {
				t.Errorf("calls %q, operation %+v", f.Calls(), s.Operation)
			}
			if bootstrapped := s.BootstrappedClaimID == "a"; bootstrapped != (c.state == infrav1.OperationSucceeded) {
				t.Errorf("bootstrapped is %q", s.BootstrappedClaimID)
			}
		})
	}
}

// TestWithdrawnAdoption ends the claim while the executor is at work.
func TestWithdrawnAdoption(t *testing.T) {
	f := &fakeExecutor{hang: make(chan struct{}), dirty: true}
	l := testLoop(f, journal.InMemory())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.Changed = func(*infrav1.ObservedOperation) {
		if len(l.Journal.State().Found) > 0 {
			cancel()
		}
	}
	l.Observe(hostWith(spec(1, "a", adoption())))
	go func() {
		<-f.hang
		l.Observe(hostWith(spec(1, "", nil)))
	}()
	l.Run(ctx)
	s := l.Journal.State()
	if got, want := f.Calls(), "adopt:id disown verify"; !strings.HasPrefix(got, want) || strings.Contains(got, "reset") {
		t.Errorf("calls %q, want %q and no reset", got, want)
	}
	if s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != operation.ReasonWithdrawn || s.Residue != journal.ResidueNone || s.CleanProof != nil {
		t.Errorf("journal %+v, operation %+v", s, s.Operation)
	}
}
