package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// unprovedTries is how many checks in a row must find something before a free
// host loses its proof: a kubelet unit without configuration comes and goes.
const (
	unprovedTries = 5
	unprovedPause = time.Second
	// maxFinding is the limit of one entry of Host.status.residue, in bytes.
	maxFinding = 256
)

// bootstrap fetches the data and executes it.
func (l *Loop) bootstrap(ctx context.Context, spec *infrav1.HostSpec) error {
	err := l.supervised(ctx, func(ctx context.Context) error {
		// The data is read after that: the token in it lasts for a quarter of an hour.
		if err := l.install(ctx, spec); err != nil {
			return err
		}
		requested, err := l.readBootstrap(ctx, spec)
		if err != nil {
			return err
		}
		return l.Executor.Bootstrap(ctx, requested, progress{l})
	})
	return l.conclude(ctx, err, func(s *journal.State) { succeed(s, l.Now()) })
}

// install brings the version of an operation onto the host.
func (l *Loop) install(ctx context.Context, spec *infrav1.HostSpec) error {
	return l.Executor.Install(ctx, operation.Software{Version: spec.Desired.Version, ReleaseDigest: spec.Desired.ReleaseDigest}, progress{l})
}

// tidy removes versions that nothing uses, once after each operation and each start of the
// agent. While a claim waits for its operation nobody knows what it will use. A failure
// is nobody's: it is tried again after the next one. It says whether there was anything to do.
func (l *Loop) tidy(ctx context.Context, spec *infrav1.HostSpec) bool {
	if l.tidied || spec == nil || !settled(l.Journal.State(), spec) {
		return false
	}
	l.tidied = true
	inUse := ""
	if spec.Claim != nil {
		inUse = spec.Desired.Version
	}
	err := l.supervised(ctx, func(ctx context.Context) error { return l.Executor.Tidy(ctx, inUse) })
	if err != nil && !stopped(ctx, err) {
		l.Log.Warn("cannot remove Kubernetes versions that nothing uses", "err", err)
	}
	return true
}

// settled says whether a host is free, or a node by an operation that succeeded.
func settled(s journal.State, spec *infrav1.HostSpec) bool {
	if spec.Claim == nil {
		return !s.Running()
	}
	op := s.Operation
	return spec.Desired != nil && spec.Desired.Phase != infrav1.HostDesiredReset && op != nil && op.ID == spec.Desired.OperationID &&
		op.State == infrav1.OperationSucceeded
}

// readBootstrap reads the Secret. Its data stays in memory.
func (l *Loop) readBootstrap(ctx context.Context, spec *infrav1.HostSpec) (operation.Bootstrap, error) {
	desired := spec.Desired
	requested := operation.Bootstrap{
		ClaimID: spec.Claim.ClaimID, ProviderID: desired.ProviderID, Version: desired.Version, VirtualIP: desired.VirtualIP, VirtualIPPort: desired.VirtualIPPort, IPFamilies: desired.IPFamilies,
		NodeLabels:              desired.NodeLabels,
		InitializesControlPlane: ptr.Deref(desired.InitializesControlPlane, false),
	}
	unavailable := func(format string, args ...any) error {
		return &operation.Error{Reason: operation.ReasonSecretUnavailable, Retry: operation.RetryLater, Message: fmt.Sprintf(format, args...)}
	}
	if desired.VirtualIP != "" && desired.InitializesControlPlane == nil {
		return requested, &operation.Error{Reason: operation.ReasonVirtualIPFailed, Retry: operation.RetryLater, Message: fmt.Sprintf(
			"the operation does not say whether this host takes %s before there is a control plane; upgrade the manager of Slipway", desired.VirtualIP)}
	}
	if desired.BootstrapSecretName == "" {
		if desired.VirtualIP != "" {
			return requested, unavailable("the operation names no bootstrap Secret: this host was to make the control plane, which another host has by now; delete the Machine to replace it")
		}
		return requested, unavailable("the operation names no bootstrap Secret")
	}
	if requested.InitializesControlPlane {
		if err := l.confirmInit(ctx, spec); err != nil {
			return requested, err
		}
	}
	if err := (progress{l}).Begin("bootstrap data"); err != nil {
		return requested, err
	}
	secret, err := l.API.GetSecret(ctx, l.Namespace, desired.BootstrapSecretName)
	if err != nil {
		return requested, unavailable("read the bootstrap Secret %s: %v", desired.BootstrapSecretName, err)
	}
	requested.Format, requested.Data = string(secret.Data["format"]), secret.Data["value"]
	if len(requested.Data) == 0 {
		return requested, unavailable("the bootstrap Secret %s has no data under the key value", desired.BootstrapSecretName)
	}
	return requested, nil
}

// confirmInit reads in the management cluster whether this host is still the one that makes the
// control plane. What was observed may be old: another host may have joined since, and then a
// try, or the reset before it, would end the majority of its etcd and remove the address from it.
func (l *Loop) confirmInit(ctx context.Context, observed *infrav1.HostSpec) error {
	later := func(format string, args ...any) error {
		return &operation.Error{Reason: operation.ReasonVirtualIPFailed, Retry: operation.RetryLater, Message: fmt.Sprintf(format, args...)}
	}
	host, err := l.API.GetHost(ctx, l.Namespace, l.Name)
	if err != nil {
		return later("cannot read in the management cluster whether this host is still to make the control plane: %v", err)
	}
	if uid, _ := l.current(); host.UID != uid || !reflect.DeepEqual(host.Spec.Desired, observed.Desired) || host.Spec.ClaimGeneration != observed.ClaimGeneration {
		l.Observe(host)
		return later("the operation of the host has changed")
	}
	return nil
}

// reset cleans the host and verifies it: as the operation itself, or before a
// bootstrap.
func (l *Loop) reset(ctx context.Context, spec *infrav1.HostSpec) error {
	err := l.supervised(ctx, func(ctx context.Context) error {
		if op := l.Journal.State().Operation; op.Phase == infrav1.HostDesiredBootstrapped && op.InitializesControlPlane {
			if err := l.confirmInit(ctx, spec); err != nil {
				return err
			}
		}
		if s := l.Journal.State(); s.Residue == journal.ResidueNone && s.Lost == nil {
			// Nothing was done for this claim: cleaning a clean host takes long.
			if left, err := l.Executor.Verify(ctx, l.Journal.State()); err == nil && len(left) == 0 {
				return nil
			}
		}
		failed := l.Executor.Reset(ctx, progress{l})
		if e := (*operation.Error)(nil); ctx.Err() != nil || errors.As(failed, &e) && e.Retry == operation.RetryLater {
			return failed
		}
		return l.verify(ctx, failed)
	})
	return l.conclude(ctx, err, func(s *journal.State) { l.cleaned(s) })
}

// check verifies what an operator cleaned by hand. The agent does not touch it.
func (l *Loop) check(ctx context.Context) error {
	err := l.supervised(ctx, func(ctx context.Context) error { return l.verify(ctx, nil) })
	return l.conclude(ctx, err, func(s *journal.State) { l.cleaned(s) })
}

// verify decides whether a reset was enough. A step of it that failed does not
// matter when nothing is left, unless that cannot be verified.
func (l *Loop) verify(ctx context.Context, failed error) error {
	state := l.Journal.State()
	left, err := l.Executor.Verify(ctx, state)
	if state.Lost != nil {
		left = append(left, operation.UnknownChanges+state.Lost.Why)
	}
	step, why := stepVerify, ""
	if broken := (*operation.StepError)(nil); errors.As(failed, &broken) {
		step, why = broken.Step, fmt.Sprintf("step %s failed: %s; ", broken.Step, operation.Truncate(broken.Err.Error(), maxCause))
	}
	var e *operation.Error
	switch unverifiable := (*operation.Unverifiable)(nil); {
	case err != nil:
		e = operation.AsError(operation.Failf(operation.ReasonResetFailed, operation.RetryAfterReset, errors.Join(failed, err), "the host may have leftovers, which could not be checked"))
	case len(left) > 0:
		l.Log.Warn("the reset left something behind", "count", len(left), "left", left[:min(len(left), maxLogged)])
		e = operation.AsError(operation.NotClean(left, why+"see the log of slipway-agent on the host and remove what is left"))
		if e.Retry, e.Err = operation.RetryAfterReset, failed; failed == nil && onlyUnknown(left) {
			e = operation.AsError(operation.NotClean(left, "look at the host"))
			e.Retry = operation.RetryNever
		}
	case errors.As(failed, &unverifiable):
		e = operation.AsError(operation.Failf(operation.ReasonResetFailed, operation.RetryAfterReset, unverifiable, "the reset left something behind"))
	default:
		return nil
	}
	e.Step = step
	return e
}

const (
	// stepVerify is reported for a reset whose steps did what they should, and were not enough.
	stepVerify = "verify"
	// maxLogged is how many leftovers the log names, of which a message has the first few.
	maxLogged = 1000
	// maxCause is how much a message has of why a step failed, in bytes.
	maxCause = 512
)

// onlyUnknown says whether no further reset can make the host any cleaner.
func onlyUnknown(left []string) bool {
	return !slices.ContainsFunc(left, func(found string) bool { return !strings.HasPrefix(found, operation.UnknownChanges) })
}

func (l *Loop) cleaned(s *journal.State) {
	clean(s)
	l.verified = true
	if s.Operation.Phase == infrav1.HostDesiredReset {
		prove(s, s.Operation.ClaimGeneration, l.BootID, l.Now())
		succeed(s, l.Now())
		return
	}
	endStep(s.Operation, l.Now())
	s.Operation.Active = false
}

// stopKubelet is all that a reset of policy Manual does.
func (l *Loop) stopKubelet(ctx context.Context) error {
	err := l.supervised(ctx, func(ctx context.Context) error {
		return operation.Step(progress{l}, "stop the kubelet", func() error { return l.Executor.StopKubelet(ctx) })
	})
	return l.conclude(ctx, err, func(s *journal.State) {
		s.CleanByHand = s.Residue != journal.ResidueNone
		s.CleanProof = nil
		succeed(s, l.Now())
	})
}

// conclude records the outcome of an effect and sets the wait before the next try.
// A superseded or stopped one is left as it is: what comes next deals with it.
func (l *Loop) conclude(ctx context.Context, err error, success func(*journal.State)) error {
	l.tidied = false
	if err == nil {
		l.delay = delays{}
		if err := l.Journal.Update(success); err != nil {
			return err
		}
		if op := l.Journal.State().Operation; op.State == infrav1.OperationRunning {
			l.Log.Info("the host is clean for another try", "operation", op.ID, "phase", op.Phase)
		} else {
			l.Log.Info("done", "operation", op.ID, "phase", op.Phase, "state", op.State)
		}
		return nil
	}
	if stopped(ctx, err) {
		return nil
	}
	e := operation.AsError(err)
	if e.Retry == operation.RetryLater {
		l.delay.until = l.Now().Add(l.delay.later())
		if l.delay.tries < quietTries {
			return nil
		}
	}
	l.Log.Warn("the operation did not succeed", "reason", e.Reason, "message", e.Message, "err", e.Err)
	if e.Retry == operation.RetryLater {
		return l.Journal.Update(func(s *journal.State) { postpone(s, e, l.Now()) })
	}
	err = l.Journal.Update(func(s *journal.State) {
		switch e.Retry {
		case operation.RetryNever:
			fail(s, e.Reason, e.Message, l.Now())
			s.Operation.FailedStep, s.Operation.NextTry = e.Step, time.Time{}
		case operation.RetryWhenAccepted:
			refusedByCluster(s, e, l.Now())
		default:
			retry(s, e, l.Now())
		}
	})
	op := l.Journal.State().Operation
	if l.delay.until = l.Now().Add(failedDelay(op.Failures + op.Refusals)); !op.NextTry.IsZero() {
		l.delay.until = op.NextTry
	}
	return err
}

// stopped reports whether an effect ended early on request.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errSuperseded)
}

// prove verifies a free host. What somebody else put there is never touched:
// without a proof the host is not claimed.
func (l *Loop) prove(ctx context.Context, generation int64) error {
	state := l.Journal.State()
	var left []string
	err := l.supervised(ctx, func(ctx context.Context) (err error) {
		left, err = l.Executor.Verify(ctx, state)
		return err
	})
	switch {
	case stopped(ctx, err):
		return nil
	case err == nil && len(left) == 0 && state.Lost == nil:
		l.verified, l.delay = true, delays{}
		l.Log.Info("the host is clean", "claimGeneration", generation)
		if state.CleanProof != nil && state.CleanProof.ClaimGeneration == generation {
			return nil
		}
		return l.Journal.Update(func(s *journal.State) {
			clean(s)
			prove(s, generation, l.BootID, l.Now())
		})
	}
	l.delay.tries++
	if l.delay.tries < unprovedTries {
		l.delay.until = l.Now().Add(unprovedPause)
		return nil
	}
	l.delay.until = l.Now().Add(failedDelay(l.delay.tries - unprovedTries + 1))
	l.Log.Warn("the host is not known to be clean, and this agent did not bootstrap it; clean it, and it becomes available", "left", left, "err", err)
	found := slices.Clone(left[:min(len(left), journal.MaxFound)])
	if err != nil && len(found) == 0 {
		found = []string{"not known: " + err.Error()}
	}
	for i := range found {
		found[i] = operation.Truncate(found[i], maxFinding)
	}
	if state.CleanProof == nil && slices.Equal(state.Found, found) {
		return nil
	}
	return l.Journal.Update(func(s *journal.State) { s.CleanProof, s.Found = nil, found })
}

// progress implements operation.Progress on the journal of the loop.
type progress struct{ loop *Loop }

// Begin implements operation.Progress.
func (p progress) Begin(name string) error {
	return p.Update(func(s *journal.State) { step(s, name, p.loop.BootID, p.loop.Now()) })
}

// Done implements operation.Progress.
func (p progress) Done() error {
	return p.Update(func(s *journal.State) { stepDone(s.Operation, p.loop.Now()) })
}

// State implements operation.Progress.
func (p progress) State() journal.State { return p.loop.Journal.State() }

// Update implements operation.Progress.
func (p progress) Update(change func(*journal.State)) error {
	if err := p.loop.Journal.Update(change); err != nil {
		return &operation.Error{Reason: operation.ReasonJournalUnwritable, Retry: operation.RetryLater, Message: err.Error(), Err: err}
	}
	p.loop.Changed(nil)
	return nil
}
