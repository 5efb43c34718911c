package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/selfupdate"
	"github.com/slipway-dev/slipway/internal/version"
)

// prepareUpdates finds out which program this is, and whether it is on trial.
func (a *Agent) prepareUpdates() error {
	var err error
	if a.trial, err = selfupdate.OnTrial(version.Version); err != nil {
		return err
	}
	a.program = selfupdate.Program()
	a.updater = selfupdate.New(selfupdate.Options{
		StateDir: a.Config.StateDir, Program: a.program, Version: version.Version, May: a.managesItself,
		Keys: a.bundleKeys, Sources: a.bundleSources, Busy: a.atWork, Reachable: a.reachable,
		Log: func() *slog.Logger { return a.Log },
	}, a.trial)
	return nil
}

// managesItself says whether this agent goes to the versions of itself that its Host asks for.
func (a *Agent) managesItself() bool {
	return a.managed() && selfupdate.Replaceable(a.program, version.Version)
}

// atWork names the operation at work; empty for none.
func (a *Agent) atWork() string {
	if a.journal == nil {
		return ""
	}
	state := a.journal.State()
	if !state.Running() || !state.Operation.Active {
		return ""
	}
	return fmt.Sprintf("%s (%s)", state.Operation.ID, state.Operation.Phase)
}

// reachable asks the management cluster as this agent does.
func (a *Agent) reachable(ctx context.Context) error {
	credentials, err := clientcmd.BuildConfigFromFlags("", filepath.Join(a.Config.StateDir, config.KubeconfigFile))
	if err != nil {
		return err
	}
	if c, _ := ask(ctx, credentials, a.namespace, a.name); c.State != ConnectionConnected {
		return errors.New(c.Message)
	}
	return nil
}
