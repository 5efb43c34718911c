package link

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link/kube"
)

const (
	// inventoryInterval is how often the inventory is read again.
	inventoryInterval = 5 * time.Minute
	inventoryRetry    = 5 * time.Second
	// farewell is after how long an agent that ended counts as away: a restart takes a few seconds.
	farewell = 10 * time.Second
	// identityInterval is how often Options.Identity is.
	identityInterval = 10 * time.Second
)

// Options of an agent that is enrolled.
type Options struct {
	// Namespace and HostName name the Host.
	Namespace, HostName string
	// BootID of this boot of the host.
	BootID string
	// HostID is the identity of the machine, written into the Lease.
	HostID string
	// Config reaches the management cluster as this agent.
	Config   *rest.Config
	Journal  *journal.Journal
	Executor operation.Executor
	// Inventory reads what the host is.
	Inventory func(context.Context, inventory.Node) (inventory.Facts, error)
	// Identity is a text that differs once the host was renamed, or addresses that count have changed. The
	// inventory is read before its time then. May be nil.
	Identity func(context.Context, inventory.Node) (string, error)
	// InventoryChanged is signalled when the inventory is to be read before its time. May be nil.
	InventoryChanged <-chan struct{}
	// VirtualIP tells what the host does about the control-plane address. May be nil.
	VirtualIP VirtualIP
	// ConfigurationErrors are what the agent does not accept of its configuration.
	ConfigurationErrors []string
	// AgentUpdate tells what the agent does about the version that the Host asks for. May be nil.
	AgentUpdate AgentUpdate
	// Trial has the agent begin no operation and write no journal, and only look and report.
	Trial bool
	// Renewed is called after each heartbeat that the server accepted, Reported with each
	// status. May be nil.
	Renewed  func()
	Reported func(infrav1.HostStatus)
	// HeartbeatInterval and LeaseDuration of the Lease.
	HeartbeatInterval, LeaseDuration time.Duration
	// Disconnected is called when the server could not be reached, Refused when
	// it did not accept the certificate. May be nil.
	Disconnected, Refused func()
	// Served is called with each version of the Host that the server shows. May be nil.
	Served func(*infrav1.Host)
	// CertificateExpires is when the certificate ends that the agent works with, which it
	// tells with each heartbeat. May be nil.
	CertificateExpires func() time.Time
	// HandOver is told what the management cluster says besides the Host. May be nil.
	HandOver HandOver
	Log      *slog.Logger
}

// HandOver follows what an agent hears of its management cluster. Its methods must not
// block.
type HandOver interface {
	// Announced is called with the annotations of each Lease.
	Announced(annotations map[string]string)
	// Served is called when the server shows the Host.
	Served()
	// Unserved is called without an error when the server says that there is no Host for
	// this agent, and with the error of a watch that failed.
	Unserved(err error)
	// Report is the answer that goes into the Lease.
	Report() string
}

// VirtualIP tells what the host does about the control-plane address.
type VirtualIP interface {
	// Status is nil on a host that is no candidate for the address.
	Status() *infrav1.VirtualIPStatus
	// Changed returns a channel that is closed at the next change of the status.
	Changed() <-chan struct{}
}

// AgentUpdate tells what the agent does about the version that the Host asks for.
type AgentUpdate interface {
	// Status is nil when there is nothing to tell.
	Status() *infrav1.HostAgentUpdate
	// Changed returns a channel that is closed at the next change of the status.
	Changed() <-chan struct{}
}

// Agent serves one Host.
type Agent struct {
	options   Options
	client    *kube.Client
	heartbeat *heartbeat
	reporter  *reporter
	loop      *core.Loop
	beat      chan struct{}

	mu      sync.Mutex
	facts   inventory.Facts
	refused *infrav1.ObservedOperation
	// collectedFor is the node that was on record when the inventory was read last, and identity what
	// Options.Identity was.
	collectedFor *journal.Node
	identity     string
	// recollect asks for the inventory before its time.
	recollect chan struct{}
	// reportRefused is what the API server refused of the last report.
	reportRefused atomic.Pointer[string]
}

// New puts an agent together. It starts nothing.
func New(o Options) (*Agent, error) {
	client, err := kube.New(o.Config)
	if err != nil {
		return nil, err
	}
	a := &Agent{options: o, client: client, beat: make(chan struct{}, 1), recollect: make(chan struct{}, 1), loop: core.NewLoop()}
	a.heartbeat = &heartbeat{
		Leases: client, Namespace: o.Namespace, Name: o.HostName, Holder: o.HostID,
		Interval: o.HeartbeatInterval, Duration: o.LeaseDuration, Log: o.Log, OnFailure: a.failed, Wake: a.beat,
		CertificateExpires: o.CertificateExpires, OnRenewed: o.Renewed,
	}
	if !o.Trial { // whose end is that of a program, while the agent lives on
		a.heartbeat.Farewell = farewell
	}
	a.reporter = newReporter(client, o.Namespace, o.HostName, o.Log, a.heartbeat.Every)
	a.reporter.onApplied, a.reporter.onRefused = o.Reported, a.refusedReport
	a.heartbeat.ReportRefused = a.ReportRefused
	if o.HandOver != nil {
		a.heartbeat.Report, a.heartbeat.OnLease = o.HandOver.Report, o.HandOver.Announced
	}
	a.loop.Journal, a.loop.Executor, a.loop.API = o.Journal, o.Executor, client
	a.loop.Namespace, a.loop.Name, a.loop.BootID, a.loop.Log, a.loop.Changed = o.Namespace, o.HostName, o.BootID, o.Log, a.changed
	return a, nil
}

// Run blocks until the context ends, and returns after everything it began has
// stopped. An operation that is under way is resumed by the next Run.
func (a *Agent) Run(ctx context.Context) {
	collected := a.collect(ctx)
	a.changed(nil)
	watcher := &watcher{
		hosts: a.client, namespace: a.options.Namespace, name: a.options.HostName, log: a.options.Log,
		changed: a.observe, failed: a.unwatched,
	}
	loop := a.loop.Run
	if a.options.Trial {
		loop = a.loop.Watch
	}
	var wg sync.WaitGroup
	for _, run := range []func(context.Context){a.heartbeat.Run, a.reporter.run, watcher.run, loop} {
		wg.Go(func() { run(ctx) })
	}
	wg.Go(func() { a.refresh(ctx, collected) })
	if a.options.VirtualIP != nil {
		wg.Go(func() { a.follow(ctx, a.options.VirtualIP.Changed) })
	}
	if a.options.AgentUpdate != nil {
		wg.Go(func() { a.follow(ctx, a.options.AgentUpdate.Changed) })
	}
	wg.Wait()
}

// Beat renews the heartbeat soon. It does not block.
func (a *Agent) Beat() {
	select {
	case a.beat <- struct{}{}:
	default:
	}
}

// LastHeartbeat returns when the server last accepted a heartbeat.
func (a *Agent) LastHeartbeat() time.Time { return a.heartbeat.Last() }

// LeaseDuration is after how long without a heartbeat the agent counts as away.
func (a *Agent) LeaseDuration() time.Duration { return a.heartbeat.LeaseDuration() }

// ReportRefused says which fields of the last report the API server refused, and why; empty when
// it accepted all of them.
func (a *Agent) ReportRefused() string {
	if said := a.reportRefused.Load(); said != nil {
		return *said
	}
	return ""
}

// refusedReport tells the management cluster by the next heartbeat, which is sent now when that is
// news.
func (a *Agent) refusedReport(what string) {
	if what == a.ReportRefused() {
		return
	}
	a.reportRefused.Store(&what)
	if what != "" {
		a.options.Log.Error("the API server refuses fields of the host's status; the CRDs and the manager may be of another version than the agent", "refused", what)
	}
	a.Beat()
}

// observe is called with each version of the Host.
func (a *Agent) observe(host *infrav1.Host) {
	if host == nil {
		a.unserved(nil)
		a.loop.Observe(nil)
		return
	}
	if a.options.HandOver != nil {
		a.options.HandOver.Served()
	}
	if a.options.Served != nil {
		a.options.Served(host)
	}
	if host.Status.BootID == "" {
		// The server lost the report, or never had one.
		a.reporter.lost()
	}
	a.loop.Observe(host)
}

// failed is called with each error of the heartbeat and of the watch. An answer
// of the server means that the connection is sound.
func (a *Agent) failed(err error) {
	switch answer := apierrors.APIStatus(nil); {
	case apierrors.IsUnauthorized(err):
		if a.options.Refused != nil {
			a.options.Refused()
		}
	case !errors.As(err, &answer) && a.options.Disconnected != nil:
		a.options.Disconnected()
	}
}

// unwatched is called with each error of the watch.
func (a *Agent) unwatched(err error) {
	a.unserved(err)
	a.failed(err)
}

func (a *Agent) unserved(err error) {
	if a.options.HandOver != nil {
		a.options.HandOver.Unserved(err)
	}
}

// changed is called after each change of the journal.
func (a *Agent) changed(refused *infrav1.ObservedOperation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = refused
	if !reflect.DeepEqual(a.options.Journal.State().Node, a.collectedFor) {
		select {
		case a.recollect <- struct{}{}:
		default:
		}
	}
	a.setStatus()
}

// report reports a change of anything but the journal.
func (a *Agent) report() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.setStatus()
}

// setStatus gives the reporter the current status. The lock is held while all of it is read,
// so that of two concurrent reports the later one is never the older one.
func (a *Agent) setStatus() {
	var virtualIP *infrav1.VirtualIPStatus
	if a.options.VirtualIP != nil {
		virtualIP = a.options.VirtualIP.Status()
	}
	var update *infrav1.HostAgentUpdate
	if a.options.AgentUpdate != nil {
		update = a.options.AgentUpdate.Status()
	}
	state := a.options.Journal.State()
	if !reflect.DeepEqual(state.Node, a.collectedFor) {
		// Compared with an inventory from before its bootstrap, the host would seem renamed.
		state.Node = nil
	}
	reported := status(a.facts, a.options.BootID, state, a.refused)
	reported.VirtualIP, reported.AgentUpdate, reported.ConfigurationErrors = virtualIP, update, a.options.ConfigurationErrors
	a.reporter.set(reported)
}

func (a *Agent) refresh(ctx context.Context, collected bool) {
	next, identity := time.NewTimer(refreshWait(collected)), time.NewTicker(identityInterval)
	defer next.Stop()
	defer identity.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-identity.C:
			if !a.identityChanged(ctx) {
				continue
			}
		case <-a.options.InventoryChanged:
		case <-a.recollect:
		case <-next.C:
		}
		collected = a.collect(ctx)
		next.Reset(refreshWait(collected))
		a.report()
	}
}

// identityChanged says whether the host was renamed, has other addresses, or runs other services, since the inventory was
// read. What cannot be read now is in the next inventory.
func (a *Agent) identityChanged(ctx context.Context) bool {
	if a.options.Identity == nil {
		return false
	}
	now, err := a.options.Identity(ctx, nodeOf(a.options.Journal.State()))
	a.mu.Lock()
	defer a.mu.Unlock()
	return err == nil && now != a.identity
}

// follow reports each change until the context ends.
func (a *Agent) follow(ctx context.Context, changes func() <-chan struct{}) {
	for {
		changed := changes()
		a.report()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func refreshWait(collected bool) time.Duration {
	if collected {
		return inventoryInterval
	}
	return inventoryRetry
}

// collect reads the inventory and reports whether it could.
func (a *Agent) collect(ctx context.Context) bool {
	state, identity := a.options.Journal.State(), ""
	if a.options.Identity != nil {
		identity, _ = a.options.Identity(ctx, nodeOf(state)) // Before the rest: what changes meanwhile is seen the next time.
	}
	facts, err := a.options.Inventory(ctx, nodeOf(state))
	if err != nil {
		a.options.Log.Error("cannot read the inventory of the host", "err", err)
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.facts, a.collectedFor, a.identity = facts, state.Node, identity
	return true
}

// nodeOf is what the journal has of the node.
func nodeOf(s journal.State) inventory.Node {
	node := inventory.Node{}
	if ip, err := netip.ParseAddr(s.VirtualIP); err == nil {
		node.VirtualIP = ip.Unmap()
	}
	if s.Node != nil {
		node.IPs = s.Node.IPs
	}
	if s.Baseline != nil && s.Residue != journal.ResidueNone {
		node.Before = append([]string{}, s.Baseline.Interfaces...)
	}
	return node
}
