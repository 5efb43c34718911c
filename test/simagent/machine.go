package simagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/run"
)

// Machine is one simulated host that enrolls as a real one does, with a key, a token and
// a certificate of its own, and keeps its state on disk: it can be switched off and on,
// and be handed over to another management cluster.
type Machine struct {
	// StateDir of the agent, and BootstrapKubeconfig it enrolls with.
	StateDir, BootstrapKubeconfig string
	// Namespace and Name of its Host.
	Namespace, Name string
	// Nodes makes the Nodes of the workload cluster.
	Nodes Nodes
	// Version is the Kubernetes version that it offers.
	Version string
	// HeartbeatInterval and LeaseDuration default to the agent's own.
	HeartbeatInterval, LeaseDuration time.Duration
	// Patience with a management cluster that is away; see run.Service.
	Patience time.Duration
	// Wrap may put another executor around its own. Default none.
	Wrap func(operation.Executor) operation.Executor
	Log  *slog.Logger

	once   sync.Once
	number int64
	boots  int
}

// Run runs the agent until the context ends. It may be called again then: each time is
// another boot.
func (m *Machine) Run(ctx context.Context) error {
	m.once.Do(func() { m.number = machines.Add(1) })
	m.boots++
	kept, err := journal.Open(filepath.Join(m.StateDir, "journal"))
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }()
	identity, err := enroll.Identity(m.StateDir)
	if err != nil {
		return err
	}
	var effects operation.Executor = &executor{nodes: m.Nodes, name: m.Name, version: m.Version}
	if m.Wrap != nil {
		effects = m.Wrap(effects)
	}
	interval, duration := m.HeartbeatInterval, m.LeaseDuration
	if interval == 0 {
		interval, duration = DefaultHeartbeatInterval, DefaultLeaseDuration
	}
	for {
		namespace, err := enroll.Namespace(m.StateDir, m.Namespace, m.BootstrapKubeconfig)
		if err != nil {
			return err
		}
		serving := &run.Service{
			Enroller: &enroll.Enroller{
				StateDir: m.StateDir, BootstrapKubeconfig: m.BootstrapKubeconfig, Namespace: namespace, HostName: m.Name, Log: m.Log, Now: time.Now,
				AllowLoopback: true,
			},
			Configured: m.Namespace, Journal: kept, Patience: m.Patience, Log: m.Log,
			Options: link.Options{
				Namespace: namespace, HostName: m.Name, HostID: identity, BootID: fmt.Sprintf("simulated-boot-%d-%d", m.number, m.boots),
				Executor: effects, Inventory: facts(m.Name, m.number, m.Version), HeartbeatInterval: interval, LeaseDuration: duration, Log: m.Log,
			},
		}
		if err := serving.Run(ctx); !errors.Is(err, run.ErrAssigned) {
			if ctx.Err() != nil {
				// It was switched off.
				return nil
			}
			return err
		}
	}
}
