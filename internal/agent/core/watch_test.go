package core

import (
	"context"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// An agent on trial tells what it refuses, and does nothing: it has no host, and no journal.
func TestWatch(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	if err := j.Update(func(s *journal.State) { s.ClaimGeneration = 2 }); err != nil {
		t.Fatal(err)
	}
	before := j.State()
	l := testLoop(f, j)
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	stale, told := hostWith(requested(1, "a", boot("b"))), 0
	l.Changed = func(refused *infrav1.ObservedOperation) {
		switch told++; {
		case refused != nil && refused.ID == "b" && refused.State == infrav1.OperationFailed:
			l.Observe(hostWith(requested(3, "c", boot("d"))))
		case refused == nil && told > 2:
			cancel()
		case refused == nil:
			l.Observe(stale)
		}
	}
	l.Watch(ctx)
	if context.Cause(ctx) != context.Canceled || f.Calls() != "" || j.State().ClaimGeneration != before.ClaimGeneration || j.State().Operation != nil { //nolint:errorlint // the error itself
		t.Errorf("%v: calls %q, journal %+v", context.Cause(ctx), f.Calls(), j.State())
	}
}
