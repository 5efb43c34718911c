package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/backoff"
	"github.com/slipway-dev/slipway/internal/agent/heartbeat"
	"github.com/slipway-dev/slipway/internal/agent/inventory"
	"github.com/slipway-dev/slipway/internal/agent/journal"
	"github.com/slipway-dev/slipway/internal/agent/kube"
	"github.com/slipway-dev/slipway/internal/agent/operation"
)

// inventoryInterval is how often the inventory is read again.
const inventoryInterval = 5 * time.Minute

// Options of an agent that is enrolled.
type Options struct {
	// Namespace and HostName name the Host.
	Namespace, HostName string
	// HostID is the identity of the machine, written into the Lease.
	HostID string
	// Config reaches the management cluster as this agent.
	Config   *rest.Config
	Journal  *journal.Journal
	Executor operation.Executor
	// Inventory reads what the host is. virtualIP is an address to leave out.
	Inventory func(ctx context.Context, virtualIP string) (inventory.Facts, error)
	// HeartbeatInterval and LeaseDuration of the Lease.
	HeartbeatInterval, LeaseDuration time.Duration
	// Disconnected is called after a failed heartbeat; refused tells that the
	// server did not accept the certificate. May be nil.
	Disconnected func(refused bool)
	Log          *slog.Logger
}

// Agent serves one Host.
type Agent struct {
	options   Options
	client    *kube.Client
	heartbeat *heartbeat.Heartbeat
	reporter  *reporter
	loop      *Loop

	mu      sync.Mutex
	facts   inventory.Facts
	refused *infrav1.ObservedOperation
}

// New puts an agent together. It starts nothing.
func New(o Options) (*Agent, error) {
	client, err := kube.New(o.Config)
	if err != nil {
		return nil, err
	}
	if o.Disconnected == nil {
		o.Disconnected = func(bool) {}
	}
	a := &Agent{options: o, client: client, reporter: newReporter(client, o.Namespace, o.HostName, o.Log), loop: NewLoop()}
	a.heartbeat = &heartbeat.Heartbeat{
		Leases: client, Namespace: o.Namespace, Name: o.HostName, Holder: o.HostID,
		Interval: o.HeartbeatInterval, Duration: o.LeaseDuration, Log: o.Log, OnFailure: a.disconnected,
	}
	a.loop.Journal, a.loop.Executor, a.loop.Secrets = o.Journal, o.Executor, client
	a.loop.Namespace, a.loop.Log, a.loop.Changed = o.Namespace, o.Log, a.changed
	return a, nil
}

// Run blocks until the context ends, and returns after everything it began has
// stopped. An operation that is under way is resumed by the next Run.
func (a *Agent) Run(ctx context.Context) {
	a.collect(ctx)
	a.loop.BootID = a.facts.BootID
	a.changed(a.options.Journal.State(), nil)
	watcher := &watcher{
		hosts: a.client, namespace: a.options.Namespace, name: a.options.HostName, log: a.options.Log,
		changed: a.observe, refused: a.disconnected,
	}
	var wg sync.WaitGroup
	for _, run := range []func(context.Context){a.heartbeat.Run, a.reporter.run, watcher.run, a.loop.Run, a.refresh} {
		wg.Go(func() { run(ctx) })
	}
	wg.Wait()
}

// LastHeartbeat returns when the server last accepted a heartbeat.
func (a *Agent) LastHeartbeat() time.Time { return a.heartbeat.Last() }

// VirtualIP returns the address the host has to hold; the zero address for none.
func VirtualIP(j *journal.Journal) netip.Addr {
	ip, err := netip.ParseAddr(j.State().VirtualIP)
	if err != nil {
		return netip.Addr{}
	}
	return ip
}

// observe is called with each version of the Host.
func (a *Agent) observe(host *infrav1.Host) {
	if host == nil {
		a.loop.Observe(nil)
		return
	}
	if host.Status.BootID == "" {
		// The server lost the report, or never had one.
		a.reporter.lost()
	}
	a.loop.Observe(&host.Spec)
}

func (a *Agent) disconnected(err error) {
	a.options.Disconnected(apierrors.IsUnauthorized(err))
}

// changed is called after each change of the journal.
func (a *Agent) changed(state journal.State, refused *infrav1.ObservedOperation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = refused
	a.reporter.set(status(a.facts, state, refused))
}

func (a *Agent) refresh(ctx context.Context) {
	for backoff.Sleep(ctx, inventoryInterval) {
		a.collect(ctx)
		a.mu.Lock()
		refused := a.refused
		a.mu.Unlock()
		a.changed(a.options.Journal.State(), refused)
	}
}

func (a *Agent) collect(ctx context.Context) {
	facts, err := a.options.Inventory(ctx, a.options.Journal.State().VirtualIP)
	if err != nil {
		a.options.Log.Error("cannot read the inventory of the host", "error", err)
		return
	}
	a.mu.Lock()
	a.facts = facts
	a.mu.Unlock()
}
