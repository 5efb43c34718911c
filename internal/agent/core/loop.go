package core

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

const (
	// maxTries bounds the failed tries of one operation.
	maxTries = 5
	// maxInterruptions bounds how often a bootstrap is begun again after a crash
	// or a reboot.
	maxInterruptions = 10
)

// errSuperseded ends an operation whose Host asks for another one.
var errSuperseded = errors.New("the host was given another operation")

// API reads the management cluster as it is now.
type API interface {
	GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	GetHost(ctx context.Context, namespace, name string) (*infrav1.Host, error)
}

// Loop executes what the spec of one Host asks for.
type Loop struct {
	Journal  *journal.Journal
	Executor operation.Executor
	API      API
	// Namespace and Name of the Host.
	Namespace, Name string
	// BootID of this boot.
	BootID string
	// Changed is called after each change of the journal, with the operation that is
	// refused, if any. It reads the journal itself. It must not block.
	Changed func(refused *infrav1.ObservedOperation)
	Log     *slog.Logger
	// Now is the clock of records, After that of waits.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time

	mu   sync.Mutex
	uid  types.UID
	spec *infrav1.HostSpec
	wake chan struct{}

	verified bool
	// tidied is true once versions that nothing uses were removed, until the next operation.
	tidied bool
	delay  delays
}

// NewLoop returns a loop with the clocks of the system.
func NewLoop() *Loop {
	return &Loop{
		Now: time.Now, After: time.After, wake: make(chan struct{}, 1),
		Changed: func(*infrav1.ObservedOperation) {},
	}
}

// Observe gives the loop the current Host; nil when it is gone. It does not block. A
// spec that is equal to the last one of the same Host changes nothing.
func (l *Loop) Observe(host *infrav1.Host) {
	var uid types.UID
	var spec *infrav1.HostSpec
	if host != nil {
		uid, spec = host.UID, host.Spec.DeepCopy()
	}
	l.mu.Lock()
	same := l.uid == uid && reflect.DeepEqual(l.spec, spec)
	l.uid, l.spec = uid, spec
	l.mu.Unlock()
	if same {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Loop) current() (types.UID, *infrav1.HostSpec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uid, l.spec.DeepCopy()
}

// Run blocks until the context ends. It resumes what an earlier process began.
func (l *Loop) Run(ctx context.Context) {
	for !l.resume(ctx) {
		if ctx.Err() != nil {
			return
		}
	}
	if op := l.Journal.State().Operation; op != nil && !op.NextTry.IsZero() {
		// A restart makes no reset begin sooner; a clock that jumped, not much later.
		l.delay.until = earlier(op.NextTry, l.Now().Add(resetLast))
	}
	for ctx.Err() == nil {
		uid, spec := l.current()
		if err := l.serve(uid, spec); err != nil {
			l.recordAgain(ctx, err)
			continue
		}
		action := Plan(l.Journal.State(), spec, l.verified)
		l.Changed(l.refusedOperation(action, spec))
		if wait := l.delay.left(action.Kind, l.Now()); wait > 0 {
			l.pause(ctx, wait)
			continue
		}
		if err := l.act(ctx, action, spec); err != nil && ctx.Err() == nil {
			// Only the journal fails here, as on a full disk.
			l.recordAgain(ctx, err)
		}
	}
}

// Watch blocks until the context ends. It tells what Run would refuse, and does nothing.
func (l *Loop) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		_, spec := l.current()
		l.Changed(l.refusedOperation(Plan(l.Journal.State(), spec, l.verified), spec))
		select {
		case <-ctx.Done():
		case <-l.wake:
		}
	}
}

func (l *Loop) recordAgain(ctx context.Context, err error) {
	l.Log.Error("cannot record progress, trying again", "err", err)
	l.pause(ctx, l.delay.later())
}

// serve records which Host the machine belongs to, before anything is done for it, once that
// is decided.
func (l *Loop) serve(uid types.UID, spec *infrav1.HostSpec) error {
	state := l.Journal.State()
	switch {
	case spec == nil:
		return nil
	case state.Lost != nil && state.Lost.Generation == nil, state.Lost == nil && unknownHost(state, spec):
		return l.recognize(uid, spec)
	case state.HostUID == uid:
		return nil
	case undecided(state, uid, spec):
		if state.Operation == nil || state.Operation.NextTry.IsZero() {
			return nil
		}
		return l.Journal.Update(giveUp)
	}
	if enrolledAgain(state, uid, spec) {
		l.Log.Info("the host was enrolled again: its claims are counted anew", "uid", uid, "former", state.HostUID, "claimGeneration", state.ClaimGeneration)
	}
	return l.Journal.Update(func(s *journal.State) { serve(s, uid, spec) })
}

// recognize looks what the host is, since the journal does not tell.
func (l *Loop) recognize(uid types.UID, spec *infrav1.HostSpec) error {
	nodeOf, registered, err := l.Executor.Node()
	if err != nil {
		return err
	}
	if err := l.Journal.Update(func(s *journal.State) { recognize(s, uid, spec, nodeOf, registered) }); err != nil {
		return err
	}
	l.Log.Error("what was done to the host is not known", "why", l.Journal.State().Lost.Why, "nodeOfClaim", nodeOf, "registered", registered)
	return nil
}

// resume records an interruption. It reports whether the loop may go on.
func (l *Loop) resume(ctx context.Context) bool {
	state := l.Journal.State()
	if !state.Running() || !state.Operation.Active {
		return true
	}
	l.Log.Warn("resuming an interrupted operation", "operation", state.Operation.ID, "step", state.Operation.Step,
		"rebooted", state.Operation.StepBootID != l.BootID)
	if err := l.Journal.Update(func(s *journal.State) { interrupted(s, l.Now()) }); err != nil {
		l.recordAgain(ctx, err)
		return false
	}
	return true
}

// act performs one action. Its error is one of the journal.
func (l *Loop) act(ctx context.Context, action Action, spec *infrav1.HostSpec) error {
	switch action.Kind {
	case ActionBegin:
		return l.begin(spec)
	case ActionBootstrap:
		return l.bootstrap(ctx, spec)
	case ActionAdopt:
		return l.adopt(ctx, spec)
	case ActionDisown:
		return l.disown(ctx)
	case ActionUpgrade:
		return l.upgrade(ctx, spec)
	case ActionReboot:
		return l.reboot(ctx, spec)
	case ActionReset:
		return l.reset(ctx, spec)
	case ActionCheck:
		return l.check(ctx)
	case ActionStopKubelet:
		return l.stopKubelet(ctx)
	case ActionProve:
		return l.prove(ctx, spec.ClaimGeneration)
	case ActionForget:
		l.Log.Warn("an operator confirmed that the host is clean", "claimGeneration", *spec.ClearedGeneration)
		uid, _ := l.current()
		return l.Journal.Update(func(s *journal.State) { forget(s, uid, spec, l.Now()) })
	case ActionRefuse:
		l.Log.Error("refusing an operation", "operation", spec.Desired.OperationID, "reason", action.Reason, "message", action.Message)
	case ActionNone:
		if l.tidy(ctx, spec) {
			// What woke the loop meanwhile was heard by that.
			return nil
		}
	}
	select {
	case <-ctx.Done():
	case <-l.wake:
	}
	return nil
}

func (l *Loop) begin(spec *infrav1.HostSpec) error {
	log := l.Log.With("operation", spec.Desired.OperationID, "phase", spec.Desired.Phase, "claimGeneration", spec.ClaimGeneration)
	if spec.Claim != nil {
		log = log.With("claim", spec.Claim.ClaimID, slog.Group("Cluster", "name", spec.Claim.ClusterName, "namespace", l.Namespace))
	}
	log.Info("new operation")
	l.delay = delays{}
	return l.Journal.Update(func(s *journal.State) { begin(s, spec, l.Now()) })
}

// supervised runs an effect and ends it early when the Host asks for another
// operation meanwhile, or gives up an adoption.
func (l *Loop) supervised(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	for {
		select {
		case err := <-done:
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		case <-l.wake:
			_, spec := l.current()
			switch Plan(l.Journal.State(), spec, l.verified).Kind {
			case ActionBegin, ActionDisown, ActionForget:
				cancel(errSuperseded)
			default:
			}
		}
	}
}

// pause waits, but not past a change of the spec.
func (l *Loop) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-l.wake:
	case <-l.After(d):
	}
}

// refusedOperation is the report on an operation that is refused, or nil.
func (l *Loop) refusedOperation(a Action, spec *infrav1.HostSpec) *infrav1.ObservedOperation {
	if a.Kind != ActionRefuse {
		return nil
	}
	return &infrav1.ObservedOperation{
		ID: spec.Desired.OperationID, ClaimID: claimID(l.Journal.State(), spec), Phase: spec.Desired.Phase,
		State: infrav1.OperationFailed, Reason: a.Reason, Message: a.Message,
	}
}
