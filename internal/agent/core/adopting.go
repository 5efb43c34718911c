package core

import (
	"context"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// adopt takes over the node that runs on the host.
func (l *Loop) adopt(ctx context.Context, spec *infrav1.HostSpec) error {
	err := l.supervised(ctx, func(ctx context.Context) error {
		requested := operation.Adoption{ProviderID: spec.Desired.ProviderID, Version: spec.Desired.Version, ClusterCAs: spec.Desired.ClusterCAs}
		return l.Executor.Adopt(ctx, requested, progress{l})
	})
	return l.conclude(ctx, err, func(s *journal.State) { succeed(s, l.Now()) })
}

// disown takes back an adoption that was withdrawn. Unlike a reset it needs no operation:
// it touches nothing but what the agent itself has just added.
func (l *Loop) disown(ctx context.Context) error {
	l.Log.Warn("the adoption was withdrawn; taking back what it began", "operation", l.Journal.State().Operation.ID)
	err := l.supervised(ctx, func(context.Context) error { return l.Executor.Disown() })
	return l.conclude(ctx, err, func(s *journal.State) { disowned(s, l.Now()) })
}
