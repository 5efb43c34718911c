package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/effects"
	"github.com/slipway-dev/slipway/internal/agent/effects/reset"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
	"github.com/slipway-dev/slipway/internal/agent/link"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/selfupdate"
	"github.com/slipway-dev/slipway/internal/agent/vip"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/version"
)

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
	// program is the path of this agent, updater brings another version of it, and trial is
	// that of an agent which an earlier version judges; nil for none.
	program string
	updater *selfupdate.Updater
	trial   *selfupdate.Trial
	// wrong is what the agent does not accept of its configuration.
	wrong []string
	// recollect is signalled when the inventory changed.
	recollect chan struct{}
}

// Run runs the agent until the context ends. An error means that it cannot work
// on this host as it is configured. Where another version of the agent takes over, this
// process becomes that one.
func (a *Agent) Run(parent context.Context) error {
	if err := os.MkdirAll(a.Config.StateDir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if err := a.prepareUpdates(); err != nil {
		return err
	}
	log := a.Log
	for parent.Err() == nil {
		if ready, err := a.work(parent, log); !ready {
			return err
		}
		if a.updater.Try(parent) && parent.Err() == nil {
			return a.updater.Become()
		}
	}
	return nil
}

// work runs the agent with the state directory to itself, until the context ends or another
// version of it is ready for its trial.
func (a *Agent) work(parent context.Context, log *slog.Logger) (ready bool, err error) {
	dir := a.Config.StateDir
	unlock, err := lockPatiently(parent, dir)
	if err != nil {
		return false, err
	}
	defer unlock()
	open := journal.Open
	if _, err := os.Stat(filepath.Join(dir, config.IdentityKeyFile)); err == nil {
		// The key is made after the journal.
		open = journal.Reopen
	}
	if a.trial != nil {
		open = journal.Frozen
	}
	if a.journal, err = open(filepath.Join(dir, config.JournalFile)); err != nil {
		return false, err
	}
	defer func() { _ = a.journal.Close() }()
	if a.name, err = enroll.HostName(dir, a.Config.HostName, config.ValidateHostName); err != nil {
		return false, err
	}
	if a.identity, err = enroll.Identity(dir); err != nil {
		return false, err
	}
	for {
		// An assigned host is free: but for journal and identity all begins anew.
		if a.namespace, err = enroll.Namespace(dir, a.Config.Namespace, a.Config.BootstrapKubeconfig); err != nil {
			return false, err
		}
		a.Log = log.With(slog.Group("Host", "name", a.name, "namespace", a.namespace))
		switch err := a.live(parent); {
		case errors.Is(err, ErrAssigned):
		case !errors.Is(err, selfupdate.ErrReady):
			return false, err
		case a.atWork() == "":
			return true, nil
		}
		// An operation that began in the last moment ends before a trial.
	}
}

// nodeIPs returns the addresses of the node on the host; nil while it is none.
func (a *Agent) nodeIPs() []netip.Addr {
	if node := a.journal.State().Node; node != nil {
		return node.IPs
	}
	return nil
}

// live runs the agent in one namespace, until the context ends or the host is in another one.
func (a *Agent) live(parent context.Context) error {
	a.Log.Info("slipway-agent starts", "version", version.Version, "hostID", a.identity)
	a.executor, a.keeper = effects.New(effects.Options{
		Root: a.Root, Identity: a.identity, Rule: a.rule(), NodeInterface: a.Config.NodeInterface,
		KubernetesDirectories: a.Config.KubernetesDirectories, CRISocket: a.Config.CRISocket,
		DrainTimeout: a.Config.DrainTimeout.Duration, Log: a.Log,
		Node:    a.nodeIPs,
		Records: filepath.Join(a.Config.StateDir, config.RecordsDirectory), Ignore: a.ignored(parent),
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
	if a.trial == nil {
		group.Go(func() error { return a.updater.Run(ctx) })
	}
	a.trial.Started()
	err := group.Wait()
	if parent.Err() != nil && (errors.Is(err, context.Cause(parent)) || errors.Is(err, selfupdate.ErrReady)) {
		// It was asked to end.
		err = nil
	}
	return err
}

// ignored is what the operator wants left alone. What is wrong with it goes into the report.
func (a *Agent) ignored(ctx context.Context) []reset.Ignored {
	accepted, wrong := a.Config.Clean.Accepted(reset.RecordedKinds(ctx))
	for _, what := range wrong {
		a.Log.Error("the configuration is not accepted as a whole", "wrong", what)
	}
	a.wrong = wrong
	all := make([]reset.Ignored, 0, len(accepted))
	for _, i := range accepted {
		all = append(all, reset.Ignored{Kind: i.Kind, Name: i.Name, Reason: i.Reason})
	}
	return all
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

// rule is what the configuration, which was checked, says of the node's addresses.
func (a *Agent) rule() nodeaddress.Rule {
	ips, _ := a.Config.NodeIPs()
	networks, _ := a.Config.Networks()
	return nodeaddress.Rule{IPs: ips, Networks: networks, Interface: a.Config.NodeIPInterface}
}

func (a *Agent) options() link.Options {
	collector := inventory.Collector{
		Root: a.Root, Hostname: os.Hostname, Interfaces: nodeaddress.Read, Addresses: net.InterfaceAddrs, Versions: a.executor.Versions.Installed,
		Software: a.softwareStatus, Services: (&kubelet.Services{Runner: a.executor.Upgrader.Runner, Now: time.Now}).Read, Hardware: (&inventory.Reader{Root: a.Root}).Read,
		LowDisk: (&inventory.Disks{Space: a.Root.Space, Now: time.Now}).Low, EndpointFailure: (&inventory.Endpoint{Root: a.Root, Now: time.Now}).Failure,
		KubeletCertificateExpires: func() *metav1.Time { return inventory.KubeletCertificateExpires(a.Root, time.Now()) }, Rule: a.rule(),
		RebootRequired: (&inventory.Reboots{Root: a.Root, Runner: a.executor.Upgrader.Runner, Now: time.Now}).Required,
		AgentVersion:   version.Version,
	}
	return link.Options{
		Namespace: a.namespace, HostName: a.name, HostID: a.identity,
		Executor: a.executor, Inventory: collector.Collect, Identity: collector.Identity, BootID: inventory.BootID(a.Root),
		HeartbeatInterval: a.Config.HeartbeatInterval.Duration, LeaseDuration: a.Config.LeaseDuration.Duration,
		VirtualIP: virtualIP{a.keeper}, InventoryChanged: a.recollect, Log: a.Log,
		ConfigurationErrors: a.wrong,
		AgentUpdate:         a.updater, Served: a.updater.Served, Trial: a.trial != nil, Renewed: a.trial.Renewed,
		Reported: func(s infrav1.HostStatus) { a.trial.Reported(s.Inventory.AgentVersion) },
	}
}

// lockPatience is for who only looks whether an agent runs, as `slipway-agent status` does.
const lockPatience = 2 * time.Second

func lockPatiently(ctx context.Context, dir string) (func(), error) {
	for began := time.Now(); ; {
		unlock, err := lock(dir)
		if err == nil || time.Since(began) >= lockPatience || !backoff.Sleep(ctx, 50*time.Millisecond) {
			return unlock, err
		}
	}
}

// lock makes sure that one agent works on the state directory.
func lock(dir string) (func(), error) {
	path := filepath.Join(dir, config.LockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	unlock, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrLocked) {
		err = fmt.Errorf("another slipway-agent uses %s: %w", dir, err)
	}
	return unlock, err
}
