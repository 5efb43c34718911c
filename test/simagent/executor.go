package simagent

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/host"
)

// steps are those of a bootstrap with kubeadm's data, as the real executor
// reports them.
var steps = []string{
	"Kubernetes version", "baseline", "virtual IP", "kubelet arguments", "write_files", "hostname", "runcmd 1 of 1",
}

// executor implements operation.Executor without a machine.
type executor struct {
	nodes         Nodes
	name, version string
	duration      time.Duration
	// providerID of the Node that the last bootstrap made.
	providerID string
}

// Bootstrap implements operation.Executor: all the time passes in the last step,
// as it does with kubeadm.
func (e *executor) Bootstrap(ctx context.Context, requested operation.Bootstrap, progress operation.Progress) error {
	for _, name := range steps[:len(steps)-1] {
		if err := operation.Step(progress, name, func() error { return nil }); err != nil {
			return err
		}
	}
	err := progress.Update(func(s *journal.State) {
		s.Residue, s.ResidueGeneration, s.CleanProof = journal.ResidueCommands, s.ClaimGeneration, nil
		s.VirtualIP = requested.VirtualIP
	})
	if err != nil {
		return err
	}
	return operation.Step(progress, steps[len(steps)-1], func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(e.duration):
		}
		version := requested.Version
		if version == "" {
			version = e.version
		}
		e.providerID = requested.ProviderID
		return e.nodes.Join(ctx, Node{Name: e.name, ProviderID: requested.ProviderID, Version: version})
	})
}

// Adopt implements operation.Executor. A simulated host is a node by its bootstrap only.
func (e *executor) Adopt(context.Context, operation.Adoption, operation.Progress) error {
	return &operation.Error{Reason: operation.ReasonNotAWorkerNode, Retry: operation.RetryNever, Message: "a simulated host has no node to adopt"}
}

// Disown implements operation.Executor.
func (e *executor) Disown() error { return nil }

// Install implements operation.Executor.
func (e *executor) Install(context.Context, operation.Software, operation.Progress) error { return nil }

// Tidy implements operation.Executor.
func (e *executor) Tidy(context.Context, string) error { return nil }

// Upgrade implements operation.Executor: the Node reports another version.
func (e *executor) Upgrade(ctx context.Context, requested operation.Upgrade, progress operation.Progress) error {
	return operation.Step(progress, "kubelet", func() error {
		return e.nodes.Join(ctx, Node{Name: e.name, ProviderID: e.providerID, Version: requested.Version})
	})
}

// Reboot implements operation.Executor. A simulated host has no boot to lose.
func (e *executor) Reboot(context.Context) error { return errNoReboot }

// PrepareReboot implements operation.Executor.
func (e *executor) PrepareReboot(ctx context.Context, _ bool, _ operation.Progress, goDown func(context.Context) error) error {
	return goDown(ctx)
}

// Rebooted implements operation.Executor.
func (e *executor) Rebooted(context.Context, string, operation.Progress) error { return errNoReboot }

// Reset implements operation.Executor. The Node stays: deleting it is up to Cluster
// API.
func (e *executor) Reset(context.Context, operation.Progress) error { return nil }

// StopKubelet implements operation.Executor.
func (e *executor) StopKubelet(context.Context) error { return nil }

// Node implements operation.Executor.
func (e *executor) Node() (claimID string, registered bool, err error) {
	_, _, claimID, registered = host.ParseProviderID(e.providerID)
	return claimID, registered, nil
}

// Verify implements operation.Executor.
func (e *executor) Verify(context.Context, journal.State) ([]string, error) { return nil, nil }

var _ operation.Executor = (*executor)(nil)

var (
	// errNoName is what Join returns for a Node that cannot be.
	errNoName   = errors.New("simagent: a Node needs a name and a providerID")
	errNoReboot = errors.New("simagent: a simulated host cannot reboot")
)
