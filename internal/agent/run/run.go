package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hardware"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/version"
)

// JournalFile is the journal's name in the state directory.
const JournalFile = "journal"

// Agent is the whole slipway-agent, not running yet.
type Agent struct {
	Config *config.AgentConfiguration
	// Root is "/" but in tests.
	Root hostfs.Root
	Log  *slog.Logger

	name, identity string
	// namespace that the host is in now.
	namespace string
	journal   *journal.Journal
	executor  *effects.Executor
	keeper    *vip.Keeper
	// recollect is signalled when the inventory changed.
	recollect chan struct{}
}

// Run runs the agent until the context ends. An error means that it cannot work
// on this host as it is configured.
func (a *Agent) Run(parent context.Context) error {
	dir := a.Config.StateDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if a.journal, err = journal.Open(filepath.Join(dir, JournalFile)); err != nil {
		return err
	}
	defer func() { _ = a.journal.Close() }()
	if a.name, err = enroll.HostName(dir, a.Config.HostName, config.ValidateHostName); err != nil {
		return err
	}
	if a.identity, err = enroll.Identity(dir); err != nil {
		return err
	}
	log := a.Log
	for {
		// An assigned host is free: but for journal and identity all begins anew.
		if a.namespace, err = enroll.Namespace(dir, a.Config.Namespace, a.Config.BootstrapKubeconfig); err != nil {
			return err
		}
		a.Log = log.With(slog.Group("Host", "name", a.name, "namespace", a.namespace))
		if err := a.live(parent); !errors.Is(err, ErrAssigned) {
			return err
		}
	}
}

// live runs the agent in one namespace, until the context ends or the host is in another one.
func (a *Agent) live(parent context.Context) error {
	a.Log.Info("slipway-agent starts", "version", version.Version, "hostID", a.identity)
	a.executor, a.keeper = effects.New(effects.Options{
		Root: a.Root, Identity: a.identity, NodeIP: a.Config.NodeIP, NodeInterface: a.Config.NodeInterface,
		KubernetesDirectories: a.Config.KubernetesDirectories, CRISocket: a.Config.CRISocket,
		DrainTimeout: a.Config.DrainTimeout.Duration, Log: a.Log,
		Candidate: func() vip.Candidate { return effects.Candidate(a.name, a.journal.State()) },
	})
	a.manageSoftware()
	group, ctx := errgroup.WithContext(parent)
	// The election needs no management cluster.
	group.Go(func() error {
		a.keeper.Run(ctx)
		return nil
	})
	group.Go(func() error { return a.enrollAndServe(ctx) })
	err := group.Wait()
	if parent.Err() != nil && errors.Is(err, context.Cause(parent)) {
		// It was asked to end.
		err = nil
	}
	return err
}

func (a *Agent) enrollAndServe(ctx context.Context) error {
	serving := &Service{
		Enroller: &enroll.Enroller{
			StateDir: a.Config.StateDir, BootstrapKubeconfig: a.Config.BootstrapKubeconfig,
			Namespace: a.namespace, HostName: a.name, Log: a.Log, Now: time.Now,
		},
		Configured: a.Config.Namespace, Journal: a.journal, Options: a.options(), Log: a.Log,
	}
	if a.Config.HealthAddress != "" {
		serving.Serving = func(ctx context.Context, served *link.Agent, session *enroll.Session) error {
			server := healthServer{
				Version: version.Version, Journal: a.journal, LastHeartbeat: served.LastHeartbeat,
				LeaseDuration: served.LeaseDuration, CertificateExpires: session.Expires,
				VirtualIP: a.keeper,
			}
			return server.serve(ctx, a.Config.HealthAddress)
		}
	}
	return serving.Run(ctx)
}

func (a *Agent) options() link.Options {
	collector := inventory.Collector{
		Root: a.Root, Hostname: os.Hostname, Addresses: vip.Kernel{}.Addresses, Versions: a.executor.Versions.Installed,
		Software: a.softwareStatus, Hardware: (&hardware.Reader{Root: a.Root}).Read, NodeIP: a.Config.NodeIP, AgentVersion: version.Version,
	}
	return link.Options{
		Namespace: a.namespace, HostName: a.name, HostID: a.identity,
		Executor: a.executor, Inventory: collector.Collect, BootID: inventory.BootID(a.Root),
		HeartbeatInterval: a.Config.HeartbeatInterval.Duration, LeaseDuration: a.Config.LeaseDuration.Duration,
		VirtualIP: virtualIP{a.keeper}, InventoryChanged: a.recollect, Log: a.Log,
	}
}

// lock makes sure that one agent works on the state directory.
func lock(dir string) (func(), error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another slipway-agent uses %s: %w", dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
