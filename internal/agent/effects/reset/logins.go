package reset

import (
	"context"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/logins"
)

// recordLogins keeps what a bootstrap that came to no end changed, before anything of it
// is undone: what somebody changes later is not taken for its doing.
func (c Cleaner) recordLogins(progress operation.Progress) error {
	if progress.State().LoginChanges != nil {
		return nil
	}
	made, err := logins.Changes(c.Root, progress.State())
	if err != nil {
		return err
	}
	return progress.Update(func(s *journal.State) { s.LoginChanges = &made })
}

// readLogins takes a snapshot of who may log in.
func (c Cleaner) readLogins() (*journal.Logins, error) { return logins.Read(c.Root) }

func (c Cleaner) logins(ctx context.Context, state journal.State) error {
	made, err := logins.Changes(c.Root, state)
	if err != nil {
		return err
	}
	err = logins.Undo(ctx, c.Root, c.Runner, made, state.Passwords)
	c.removeDirectories(state) // of keys
	return err
}

func (c Cleaner) leftLogins(state journal.State) ([]string, error) {
	made, err := logins.Changes(c.Root, state)
	if err != nil {
		return nil, err
	}
	return logins.Left(c.Root, made)
}
