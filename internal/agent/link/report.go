package link

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
	"github.com/slipway-dev/slipway/internal/agent/link/backoff"
)

// The steps of what goes well wait for their report, as each report wakes three
// controllers: those of a second pass unseen. In a fleet so large that the server asks
// for fewer heartbeats, those of a tenth of their interval do.
const (
	passingDelay    = time.Second
	maxPassingDelay = 10 * time.Second
	passingShare    = 10
)

// passing is the delay where heartbeats are so far apart.
func passing(heartbeats time.Duration) time.Duration {
	return min(max(passingDelay, heartbeats/passingShare), maxPassingDelay)
}

// status is the agent's part of Host.status.
func status(facts inventory.Facts, bootID string, s journal.State, refused *infrav1.ObservedOperation) infrav1.HostStatus {
	observed := refused
	if observed == nil && s.Operation != nil {
		observed = report(s.Operation)
	}
	return infrav1.HostStatus{
		Inventory: facts.Inventory, Software: facts.Software, Capacity: facts.Capacity, Addresses: facts.Addresses, Services: facts.Services, LowDisk: facts.LowDisk, RebootRequired: facts.RebootRequired, EndpointFailure: facts.EndpointFailure, BootID: bootID,
		KubeletCertificateExpires: facts.KubeletCertificateExpires,
		ObservedOperation:         observed, Residue: s.Found, CleanProof: s.CleanProof, Node: node(s.Node), Record: record(s),
	}
}

// record is what the journal has of the last claim; nil before there was one.
func record(s journal.State) *infrav1.HostRecord {
	if s.ClaimGeneration == 0 && s.Lost == nil && s.Residue == journal.ResidueNone {
		return nil
	}
	reported := &infrav1.HostRecord{ClaimID: cmp.Or(s.BootstrappedClaimID, s.ClaimID), ClaimGeneration: ptr.To(s.ClaimGeneration), State: infrav1.HostRecordClean}
	switch {
	case s.NodeOf() != "":
		reported.State = infrav1.HostRecordNode
	case s.Residue != journal.ResidueNone:
		reported.State = infrav1.HostRecordRemains
	}
	if s.Lost != nil {
		reported.Lost = s.Lost.Why
	}
	return reported
}

func node(n *journal.Node) *infrav1.HostNode {
	if n == nil {
		return nil
	}
	reported := &infrav1.HostNode{Name: n.Name, HostName: n.HostName, AddressSource: n.Source}
	for _, ip := range n.IPs {
		reported.Addresses = append(reported.Addresses, ip.String())
	}
	return reported
}

func report(op *journal.Operation) *infrav1.ObservedOperation {
	observed := &infrav1.ObservedOperation{
		ID: op.ID, ClaimID: op.ClaimID, Phase: op.Phase, State: op.State, Step: op.Step, Reason: op.Reason,
		Message: op.Message, StartTime: metav1.NewTime(op.StartTime),
	}
	if op.State == infrav1.OperationFailed && op.FailedStep != "" {
		observed.Step = op.FailedStep
	}
	if op.State == infrav1.OperationFailed && !op.NextTry.IsZero() {
		observed.Message += "; the agent goes on, next at " + op.NextTry.UTC().Format(time.RFC3339)
	}
	if !op.CompletionTime.IsZero() {
		observed.CompletionTime = metav1.NewTime(op.CompletionTime)
	}
	for _, s := range op.Steps {
		step := infrav1.OperationStep{Name: s.Name, StartTime: metav1.NewMicroTime(s.Start)}
		if !s.End.IsZero() {
			step.CompletionTime = metav1.NewMicroTime(s.End)
		}
		observed.Steps = append(observed.Steps, step)
	}
	return observed
}

// HostStatuses applies the agent's part of a Host's status.
type HostStatuses interface {
	ApplyHostStatus(ctx context.Context, host *infrav1.Host) error
}

// reporter applies the newest status, and only when it differs from the last one
// that the server accepted.
type reporter struct {
	hosts           HostStatuses
	namespace, name string
	log             *slog.Logger
	// heartbeats is the time between two of them now.
	heartbeats func() time.Duration
	// onApplied is called with each status that the server accepted. May be nil.
	onApplied func(infrav1.HostStatus)
	// onRefused is called after each report with what the server refused of it; empty when it
	// accepted everything. May be nil.
	onRefused func(string)

	mu      sync.Mutex
	wanted  *infrav1.HostStatus
	applied string
	// accepted is what applied encodes; nil when that is empty.
	accepted *infrav1.HostStatus
	wake     chan struct{}
}

func newReporter(hosts HostStatuses, namespace, name string, log *slog.Logger, heartbeats func() time.Duration) *reporter {
	return &reporter{hosts: hosts, namespace: namespace, name: name, log: log, heartbeats: heartbeats, wake: make(chan struct{}, 1)}
}

// set gives the newest status. It does not block.
func (r *reporter) set(s infrav1.HostStatus) {
	r.mu.Lock()
	r.wanted = &s
	r.mu.Unlock()
	r.signal()
}

// lost tells that the server has not the status that was applied, as after a
// move of the management cluster.
func (r *reporter) lost() {
	r.mu.Lock()
	r.applied, r.accepted = "", nil
	r.mu.Unlock()
	r.signal()
}

func (r *reporter) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run blocks until the context ends.
func (r *reporter) run(ctx context.Context) {
	outage, failing := backoff.Backoff{}, false
	for {
		err := r.apply(ctx)
		if err == nil {
			outage.Reset()
			failing = false
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
				r.letPass(ctx)
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if !failing {
			r.log.Warn("cannot report the status of the host, trying again", "err", err)
		}
		failing = true
		if !backoff.Sleep(ctx, outage.Next(time.Now())) {
			return
		}
	}
}

// letPass waits while there is nothing to report but what goes well and isn't done.
func (r *reporter) letPass(ctx context.Context) {
	timer := time.NewTimer(passing(r.heartbeats()))
	defer timer.Stop()
	for r.passes() {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-r.wake:
		}
	}
}

func (r *reporter) passes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted == nil {
		return false
	}
	op := r.wanted.ObservedOperation
	if r.accepted == nil {
		// The first report of a host waits for the proof that it is clean.
		return op == nil && r.wanted.CleanProof == nil
	}
	// The right to read the bootstrap Secret comes seconds after the operation.
	if op == nil || op.State != infrav1.OperationRunning || (op.Reason != "" && op.Reason != operation.ReasonSecretUnavailable) {
		return false
	}
	// An operation takes the proof that the host is clean away; whoever gave the
	// operation knows.
	before, after := *r.accepted, *r.wanted
	before.ObservedOperation, after.ObservedOperation = nil, nil
	before.CleanProof, after.CleanProof = nil, nil
	// The identity of the node is decided on the way.
	before.Node, after.Node, before.Record, after.Record = nil, nil, nil, nil
	return equality.Semantic.DeepEqual(before, after)
}

func (r *reporter) apply(ctx context.Context) error {
	r.mu.Lock()
	wanted, applied := r.wanted, r.applied
	r.mu.Unlock()
	if wanted == nil {
		return nil
	}
	fitted, err := fit(wanted)
	if err != nil {
		return err
	}
	d := delivery{reporter: r, applied: applied}
	delivered, err := d.deliver(ctx, fitted)
	if r.onRefused != nil && (err == nil || refused(err)) {
		r.onRefused(d.refusals(err))
	}
	if err != nil {
		return err
	}
	if d.body != applied && r.onApplied != nil {
		r.onApplied(*delivered)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.applied == applied {
		// What passes compares what was asked for, not what the API took of it.
		r.applied, r.accepted = d.body, wanted
	}
	return nil
}
