package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// fakeExecutor pretends to have a host: it fails bootstraps on one that is not
// clean, as kubeadm does.
type fakeExecutor struct {
	mu    sync.Mutex
	calls []string
	dirty bool

	bootstrapErrs []error
	resetErrs     []error
	upgradeErrs   []error
	adoptErrs     []error
	installErrs   []error
	// installs are the host bundles that were asked for, tidied the versions in use at each Tidy.
	installs, tidied []string
	// onTidy is called by Tidy.
	onTidy func()
	// onReboot is called by Reboot.
	onReboot  func()
	verifyErr error
	// nodeOf is the claim whose node the host is by what is on it.
	nodeOf    string
	leftovers []string
	// unseen makes Verify find nothing after a reset that failed.
	unseen bool
	// initializes says of each bootstrap whether it makes the control plane.
	initializes []bool
	// hang makes Bootstrap wait for its context.
	hang chan struct{}
}

func (f *fakeExecutor) call(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

func (f *fakeExecutor) Calls() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " ")
}

func next(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

func (f *fakeExecutor) Bootstrap(ctx context.Context, o operation.Bootstrap, p operation.Progress) error {
	f.call("bootstrap:" + string(o.Data))
	f.initializes = append(f.initializes, o.InitializesControlPlane)
	if f.dirty {
		return &operation.Error{Reason: "Dirty", Message: "the host is dirty", Retry: operation.RetryNever}
	}
	if err := operation.Step(p, "runcmd", func() error { return nil }); err != nil {
		return err
	}
	f.dirty = true
	if err := p.Update(func(s *journal.State) { s.Residue = journal.ResidueCommands; s.CleanProof = nil }); err != nil {
		return err
	}
	if f.hang != nil {
		close(f.hang)
		<-ctx.Done()
		return ctx.Err()
	}
	return next(&f.bootstrapErrs)
}

func (f *fakeExecutor) Install(_ context.Context, o operation.Software, p operation.Progress) error {
	if o.ReleaseDigest == "" {
		return nil
	}
	f.mu.Lock()
	f.installs = append(f.installs, o.Version+"@"+o.ReleaseDigest)
	f.mu.Unlock()
	f.call("install")
	return operation.Step(p, "host software", func() error { return next(&f.installErrs) })
}

func (f *fakeExecutor) Tidy(_ context.Context, inUse string) error {
	if f.onTidy != nil {
		f.onTidy()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidied = append(f.tidied, inUse)
	return nil
}

func (f *fakeExecutor) Reset(context.Context, operation.Progress) error {
	f.call("reset")
	err := next(&f.resetErrs)
	f.dirty = err != nil && !f.unseen
	return err
}

func (f *fakeExecutor) Upgrade(_ context.Context, o operation.Upgrade, p operation.Progress) error {
	f.call("upgrade:" + o.Version)
	return operation.Step(p, "upgrade: kubeadm", func() error { return next(&f.upgradeErrs) })
}

func (f *fakeExecutor) Reboot(context.Context) error {
	f.call("reboot")
	if f.onReboot != nil {
		f.onReboot()
	}
	return nil
}

func (f *fakeExecutor) PrepareReboot(ctx context.Context, drain bool, _ operation.Progress, goDown func(context.Context) error) error {
	if drain {
		f.call("drain")
	}
	return goDown(ctx)
}

func (f *fakeExecutor) Rebooted(context.Context, string, operation.Progress) error {
	f.call("rebooted")
	return nil
}

func (f *fakeExecutor) StopKubelet(context.Context) error { f.call("stop"); return nil }

func (f *fakeExecutor) Node() (string, bool, error) { return f.nodeOf, f.nodeOf != "", nil }

func (f *fakeExecutor) Verify(context.Context, journal.State) ([]string, error) {
	f.call("verify")
	if f.dirty {
		return []string{"process kubelet (PID 1)"}, nil
	}
	return f.leftovers, f.verifyErr
}

type fakeSecrets struct {
	errs []error
	n    int
	// host is the one of the management cluster.
	host    *infrav1.Host
	hostErr error
}

func (f *fakeSecrets) GetSecret(context.Context, string, string) (*corev1.Secret, error) {
	f.n++
	if err := next(&f.errs); err != nil {
		return nil, err
	}
	return &corev1.Secret{Data: map[string][]byte{"value": []byte("data")}}, nil
}

func (f *fakeSecrets) GetHost(context.Context, string, string) (*infrav1.Host, error) {
	return f.host, f.hostErr
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
}

// testLoop has clocks that never make a test wait, and a journal that knows the Host.
func testLoop(f *fakeExecutor, j *journal.Journal) *Loop {
	if j.State().HostUID == "" {
		_ = j.Update(func(s *journal.State) { s.HostUID = "host" })
	}
	l := NewLoop()
	l.Journal, l.Executor, l.API, l.BootID = j, f, &fakeSecrets{}, "boot-1"
	l.Log = slog.New(slog.DiscardHandler)
	past := make(chan time.Time)
	close(past)
	l.After = func(time.Duration) <-chan time.Time { return past }
	clock := time.Unix(1_000_000_000, 0)
	l.Now = func() time.Time { clock = clock.Add(time.Minute); return clock }
	return l
}

// runUntil runs the loop until the condition holds after some change.
func runUntil(t *testing.T, l *Loop, s *infrav1.HostSpec, holds func(journal.State, *infrav1.ObservedOperation) bool) journal.State {
	t.Helper()
	return runUntilOn(t, l, hostWith(s), holds)
}

func runUntilOn(t *testing.T, l *Loop, h *infrav1.Host, holds func(journal.State, *infrav1.ObservedOperation) bool) journal.State {
	t.Helper()
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	l.Changed = func(refused *infrav1.ObservedOperation) {
		if holds(l.Journal.State(), refused) {
			cancel()
		}
	}
	l.Observe(h)
	l.Run(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("never came to the end: %+v", l.Journal.State().Operation)
	}
	return l.Journal.State()
}

func hostWith(s *infrav1.HostSpec) *infrav1.Host {
	return &infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "host"}, Spec: *s}
}

func ended(id string) func(journal.State, *infrav1.ObservedOperation) bool {
	return func(s journal.State, _ *infrav1.ObservedOperation) bool {
		return s.Operation != nil && s.Operation.ID == id && s.Operation.State != infrav1.OperationRunning
	}
}

func requested(generation int64, claim string, d *infrav1.HostDesired) *infrav1.HostSpec {
	s := spec(generation, claim, d)
	s.Desired.BootstrapSecretName = "s"
	return s
}

func TestLoopLife(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	l := testLoop(f, j)
	s := runUntil(t, l, spec(0, "", nil), func(s journal.State, _ *infrav1.ObservedOperation) bool { return s.CleanProof != nil })
	if s.CleanProof.ClaimGeneration != 0 || s.CleanProof.BootID != "boot-1" {
		t.Fatalf("proof %+v", s.CleanProof)
	}
	s = runUntil(t, l, requested(1, "a", boot("b")), ended("b"))
	if s.Operation.State != infrav1.OperationSucceeded || s.CleanProof != nil {
		t.Fatalf("after the bootstrap: %+v, proof %+v", s.Operation, s.CleanProof)
	}
	s = runUntil(t, l, requested(1, "a", resets("")), ended("r"))
	if s.Operation.State != infrav1.OperationSucceeded || s.CleanProof == nil || s.CleanProof.ClaimGeneration != 1 {
		t.Fatalf("after the reset: %+v, proof %+v", s.Operation, s.CleanProof)
	}
	if got, want := f.Calls(), "verify bootstrap:data reset verify"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

func TestFailedBootstrapIsResetAndTriedAgain(t *testing.T) {
	f := &fakeExecutor{bootstrapErrs: []error{&operation.Error{Reason: "CommandFailed", Message: "runcmd 1 of 1 ended with exit code 1"}}}
	s := runUntil(t, testLoop(f, journal.InMemory()), requested(1, "a", boot("b")), ended("b"))
	if s.Operation.State != infrav1.OperationSucceeded || s.Operation.Failures != 1 {
		t.Fatalf("operation %+v", s.Operation)
	}
	if got, want := f.Calls(), "bootstrap:data reset verify bootstrap:data"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// A reset that must wait removes nothing, and is neither judged nor counted.
func TestResetThatWaitsIsTriedAsLongAsItTakes(t *testing.T) {
	f := &fakeExecutor{bootstrapErrs: []error{&operation.Error{Reason: "CommandFailed", Message: "runcmd failed"}}}
	for range 2 * maxTries {
		f.resetErrs = append(f.resetErrs, &operation.Error{Reason: operation.ReasonControlPlaneWaits, Message: "no majority", Retry: operation.RetryLater})
	}
	s := runUntil(t, testLoop(f, journal.InMemory()), requested(1, "a", boot("b")), ended("b"))
	if s.Operation.State != infrav1.OperationSucceeded || s.Operation.Failures != 1 {
		t.Fatalf("operation %+v", s.Operation)
	}
	if got, want := f.Calls(), "bootstrap:data"+strings.Repeat(" reset", 2*maxTries+1)+" verify bootstrap:data"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// A cluster that does not accept the node says nothing about host or data: such tries are not counted with
// those that failed, each begins afresh, later than the one before, and only the same reason again and
// again ends the bootstrap.
func TestRefusedTriesAreNotCounted(t *testing.T) {
	exists := &operation.Error{Reason: operation.ReasonNodeExists, Message: "Node is Ready", Retry: operation.RetryWhenAccepted, Tries: 2 * maxTries}
	away := &operation.Error{Reason: operation.ReasonClusterUnreachable, Message: "no answer", Retry: operation.RetryWhenAccepted}
	failed := &operation.Error{Reason: operation.ReasonCommandFailed, Message: "runcmd failed"}
	for name, c := range map[string]struct {
		errs     []error
		state    infrav1.OperationState
		failures int
		message  string
	}{
		"more than may fail": {slices.Repeat([]error{exists}, 2*maxTries-1), infrav1.OperationSucceeded, 0, ""},
		"beside failed ones": {slices.Concat(slices.Repeat([]error{exists}, maxTries), []error{failed}, slices.Repeat([]error{exists}, 2*maxTries-1)), infrav1.OperationSucceeded, 1, ""},
		"too often":          {slices.Repeat([]error{exists}, 2*maxTries), infrav1.OperationFailed, 0, "Node is Ready (tried 10 times)"},
		"without a limit":    {slices.Repeat([]error{away}, 10*maxTries), infrav1.OperationSucceeded, 0, ""},
		"another reason":     {slices.Concat(slices.Repeat([]error{away}, 3*maxTries), slices.Repeat([]error{exists}, 2*maxTries-1)), infrav1.OperationSucceeded, 0, ""},
		"failed ones end it": {slices.Concat([]error{away}, slices.Repeat([]error{failed}, maxTries)), infrav1.OperationFailed, maxTries, "runcmd failed (tried 5 times)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeExecutor{bootstrapErrs: slices.Clone(c.errs)}
			l := testLoop(f, journal.InMemory())
			reported := false
			s := runUntil(t, l, requested(1, "a", boot("b")), func(s journal.State, r *infrav1.ObservedOperation) bool {
				op := s.Operation
				reported = reported || op != nil && op.State == infrav1.OperationRunning && op.Refusals == 1 && op.Message != ""
				return ended("b")(s, r)
			})
			if op := s.Operation; op.State != c.state || op.Failures != c.failures || op.Message != c.message || !reported {
				t.Fatalf("operation %+v, reported %t", op, reported)
			}
			tries := len(c.errs)
			if c.state == infrav1.OperationSucceeded {
				tries++
			}
			if got, want := f.Calls(), strings.TrimSuffix(strings.Repeat("bootstrap:data reset verify ", tries), " reset verify "); got != want {
				t.Errorf("calls %q, want %q", got, want)
			}
		})
	}
}

// After commands that ran before runcmd, as those of bootcmd, a host has to be reset as well.
func TestRefusedTryBeginsWithAReset(t *testing.T) {
	for left, reset := range map[journal.Residue]bool{journal.ResidueNone: false, journal.ResidueFiles: true, journal.ResidueCommands: true} {
		s := journal.State{Residue: left, Operation: &journal.Operation{State: infrav1.OperationRunning, Phase: infrav1.HostDesiredBootstrapped}}
		refusedByCluster(&s, &operation.Error{Retry: operation.RetryWhenAccepted}, time.Unix(1, 0))
		if s.Operation.ResetFirst != reset {
			t.Errorf("after %q the next try begins with a reset: %t", left, !reset)
		}
	}
}

// The tries that a cluster refuses are as far apart as those that failed, and a minute in the end: it has
// minutes to find that a Node is not Ready any more.
func TestRefusedTriesAreFurtherAndFurtherApart(t *testing.T) {
	exists := &operation.Error{Reason: operation.ReasonNodeExists, Message: "Node is Ready", Retry: operation.RetryWhenAccepted, Tries: 9}
	f := &fakeExecutor{bootstrapErrs: slices.Repeat([]error{exists}, 9)}
	l := testLoop(f, journal.InMemory())
	clock, waited := time.Unix(1_000_000_000, 0), []time.Duration{}
	l.Now = func() time.Time { return clock }
	l.After = func(d time.Duration) <-chan time.Time {
		waited, clock = append(waited, d), clock.Add(d)
		past := make(chan time.Time)
		close(past)
		return past
	}
	runUntil(t, l, requested(1, "a", boot("b")), ended("b"))
	want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute, time.Minute}
	if !slices.Equal(waited, want) {
		t.Errorf("waits %v, want %v", waited, want)
	}
}

func TestTriesAreBounded(t *testing.T) {
	f := &fakeExecutor{}
	for range 2 * maxTries {
		f.bootstrapErrs = append(f.bootstrapErrs, &operation.Error{Reason: "CommandFailed", Message: "runcmd failed"})
	}
	s := runUntil(t, testLoop(f, journal.InMemory()), requested(1, "a", boot("b")), ended("b"))
	if s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != "CommandFailed" || s.Operation.Message != "runcmd failed (tried 5 times)" {
		t.Fatalf("operation %+v", s.Operation)
	}
	if n := strings.Count(f.Calls(), "bootstrap"); n != maxTries {
		t.Errorf("%d tries, want %d", n, maxTries)
	}
}

func TestErrorsThatStayAreNotRetried(t *testing.T) {
	f := &fakeExecutor{bootstrapErrs: []error{&operation.Error{Reason: "UnsupportedCloudConfig", Message: "no", Retry: operation.RetryNever}}}
	s := runUntil(t, testLoop(f, journal.InMemory()), requested(1, "a", boot("b")), ended("b"))
	if s.Operation.State != infrav1.OperationFailed || f.Calls() != "bootstrap:data" {
		t.Fatalf("operation %+v, calls %q", s.Operation, f.Calls())
	}
}

func TestSecretThatLagsIsWaitedFor(t *testing.T) {
	f := &fakeExecutor{}
	l := testLoop(f, journal.InMemory())
	l.API = &fakeSecrets{errs: []error{forbidden(), forbidden(), forbidden(), forbidden(), forbidden(), forbidden(), forbidden()}}
	reported := false
	s := runUntil(t, l, requested(1, "a", boot("b")), func(s journal.State, r *infrav1.ObservedOperation) bool {
		reported = reported || s.Operation != nil && s.Operation.Reason == operation.ReasonSecretUnavailable
		return ended("b")(s, r)
	})
	if s.Operation.State != infrav1.OperationSucceeded || s.Operation.Failures != 0 || !reported {
		t.Fatalf("operation %+v, reported %t", s.Operation, reported)
	}
}

// The operation of an older manager does not say whether the host makes the control plane.
// The agent waits until a newer manager does.
func TestWhoInitializesIsNotGuessed(t *testing.T) {
	for _, initializes := range []bool{true, false} {
		f := &fakeExecutor{}
		l := testLoop(f, journal.InMemory())
		desired := boot("b")
		desired.VirtualIP = "10.0.0.200"
		s := runUntil(t, l, requested(1, "a", desired), func(s journal.State, _ *infrav1.ObservedOperation) bool {
			return s.Operation != nil && s.Operation.Reason == operation.ReasonVirtualIPFailed
		})
		if s.Operation.State != infrav1.OperationRunning || f.Calls() != "" || !strings.Contains(s.Operation.Message, "upgrade the manager") {
			t.Fatalf("operation %+v, calls %q", s.Operation, f.Calls())
		}
		desired.InitializesControlPlane = &initializes
		l.API = &fakeSecrets{host: hostWith(requested(1, "a", desired))}
		s = runUntil(t, l, requested(1, "a", desired), ended("b"))
		if s.Operation.State != infrav1.OperationSucceeded || s.Operation.Failures != 0 || !slices.Equal(f.initializes, []bool{initializes}) {
			t.Errorf("operation %+v, initializes %v, want %t", s.Operation, f.initializes, initializes)
		}
	}
}

func TestOlderClaimIsResetFirst(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	s := runUntil(t, testLoop(f, j), requested(2, "c", boot("b2")), ended("b2"))
	if s.Operation.State != infrav1.OperationSucceeded || s.ClaimID != "c" {
		t.Fatalf("operation %+v", s.Operation)
	}
	if got, want := f.Calls(), "bootstrap:data reset verify bootstrap:data"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

func TestHostThatDoesNotGetCleanFails(t *testing.T) {
	f, j := &fakeExecutor{leftovers: []string{"mount /var/lib/kubelet/pods/x"}}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	s := runUntil(t, testLoop(f, j), requested(1, "a", resets("")), ended("r"))
	if s.Operation.State != infrav1.OperationFailed || s.Operation.Reason != operation.ReasonNotClean || s.CleanProof != nil {
		t.Fatalf("operation %+v, proof %+v", s.Operation, s.CleanProof)
	}
	if !strings.Contains(s.Operation.Message, "/var/lib/kubelet/pods/x") {
		t.Errorf("the message does not name what is left: %q", s.Operation.Message)
	}
}

// The message of a host has room for a few leftovers, and points to the log, which has the others.
func TestLogNamesWhatIsLeft(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	for n := range 20 {
		f.leftovers = append(f.leftovers, fmt.Sprintf("route %d", n))
	}
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	var log bytes.Buffer
	l := testLoop(f, j)
	l.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := runUntil(t, l, requested(1, "a", resets("")), ended("r"))
	if m := s.Operation.Message; strings.Contains(m, "route 19") || !strings.Contains(m, "and 12 more") || !strings.Contains(m, "see the log of slipway-agent") {
		t.Errorf("message %q", m)
	}
	if !strings.Contains(log.String(), "route 19") {
		t.Errorf("the log does not name all that is left:\n%s", log.String())
	}
}

func TestResetKnowsThatItsClusterGoes(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	desired := resets(infrav1.ResetPolicyKubeadm)
	desired.ClusterDeleting = ptr.To(true)
	if s := runUntil(t, testLoop(f, j), requested(1, "a", desired), ended("r")); !s.Operation.ClusterDeleting {
		t.Errorf("operation %+v", s.Operation)
	}
}

func TestManualResetStopsTheKubeletAndProvesNothing(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	s := runUntil(t, testLoop(f, j), requested(1, "a", resets(infrav1.ResetPolicyManual)), ended("r"))
	if s.Operation.State != infrav1.OperationSucceeded || s.CleanProof != nil || !strings.HasSuffix(f.Calls(), "stop") {
		t.Fatalf("operation %+v, proof %+v, calls %q", s.Operation, s.CleanProof, f.Calls())
	}
	// The next claim finds it as the operator left it: first dirty, then clean.
	s = runUntil(t, testLoop(f, j), requested(2, "c", boot("b2")), ended("b2"))
	if s.Operation.State != infrav1.OperationFailed || strings.Contains(f.Calls(), "reset") {
		t.Fatalf("operation %+v, calls %q", s.Operation, f.Calls())
	}
	f.dirty = false
	s = runUntil(t, testLoop(f, j), requested(3, "d", boot("b3")), ended("b3"))
	if s.Operation.State != infrav1.OperationSucceeded || strings.Contains(f.Calls(), "reset") {
		t.Fatalf("operation %+v, calls %q", s.Operation, f.Calls())
	}
}

func TestNewOperationEndsTheRunningOne(t *testing.T) {
	f, j := &fakeExecutor{hang: make(chan struct{})}, journal.InMemory()
	l := testLoop(f, j)
	go func() {
		<-f.hang
		l.Observe(hostWith(requested(1, "a", resets(""))))
	}()
	s := runUntil(t, l, requested(1, "a", boot("b")), ended("r"))
	if s.Operation.State != infrav1.OperationSucceeded || f.Calls() != "bootstrap:data reset verify" {
		t.Fatalf("operation %+v, calls %q", s.Operation, f.Calls())
	}
}

func TestVanishedHostStopsNothing(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	l := testLoop(f, j)
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	l.Changed = func(*infrav1.ObservedOperation) {
		switch looks++; looks {
		case 1:
			l.Observe(hostWith(spec(1, "a", nil)))
		case 2:
			l.Observe(hostWith(spec(1, "", nil)))
		case 3:
			l.Observe(nil)
		case 4:
			cancel()
		}
	}
	l.Observe(hostWith(requested(1, "a", boot("b"))))
	l.Run(ctx)
	if f.Calls() != "bootstrap:data" {
		t.Fatalf("calls %q after Host, claim and operation vanished", f.Calls())
	}
}

func TestRefusedOperationIsReportedAndTouchesNothing(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(5, "a", boot("b")), ended("b"))
	var got *infrav1.ObservedOperation
	runUntil(t, testLoop(f, j), requested(4, "z", resets("")), func(_ journal.State, refused *infrav1.ObservedOperation) bool {
		got = refused
		return refused != nil
	})
	if got.ID != "r" || got.State != infrav1.OperationFailed || got.Reason != operation.ReasonStaleClaim || f.Calls() != "bootstrap:data" {
		t.Fatalf("reported %+v, calls %q", got, f.Calls())
	}
}

func TestMovedClaimIsNotBootstrappedAgain(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	runUntil(t, testLoop(f, j), requested(1, "a", boot("b")), ended("b"))
	s := runUntil(t, testLoop(f, j), requested(1, "a", boot("other-name")), ended("other-name"))
	if s.Operation.State != infrav1.OperationSucceeded || f.Calls() != "bootstrap:data" {
		t.Fatalf("operation %+v, calls %q", s.Operation, f.Calls())
	}
}

// A machine that was enrolled again has a Host that counts its claims from the start: its
// first claim is no operation of an earlier time.
func TestFirstClaimAfterTheHostWasEnrolledAgain(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	for _, desired := range []*infrav1.HostDesired{boot("b"), resets("")} {
		runUntil(t, testLoop(f, j), requested(2, "a", desired), ended(desired.OperationID))
	}
	anew := func(s *infrav1.HostSpec) *infrav1.Host {
		return &infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "another"}, Spec: *s}
	}
	s := runUntilOn(t, testLoop(f, j), anew(spec(0, "", nil)), func(s journal.State, _ *infrav1.ObservedOperation) bool {
		return s.CleanProof != nil && s.CleanProof.ClaimGeneration == 0
	})
	if s.Operation != nil || s.HostUID != "another" {
		t.Errorf("of the Host before there is %+v, served is %q", s.Operation, s.HostUID)
	}
	s = runUntilOn(t, testLoop(f, j), anew(requested(1, "c", boot("d"))), ended("d"))
	if s.Operation.State != infrav1.OperationSucceeded || s.BootstrappedClaimID != "c" {
		t.Fatalf("operation %+v", s.Operation)
	}
}

// A Host that comes while something is left on the machine counts its claims from the start
// all the same, once nothing is.
func TestFirstClaimAfterTheHostBecameClean(t *testing.T) {
	anew := func(s *infrav1.HostSpec) *infrav1.Host {
		return &infrav1.Host{ObjectMeta: metav1.ObjectMeta{UID: "another"}, Spec: *s}
	}
	proved := func(s journal.State, _ *infrav1.ObservedOperation) bool {
		return s.CleanProof != nil && s.CleanProof.ClaimGeneration == 0
	}
	for name, leave := range map[string]func(*testing.T, *fakeExecutor, *journal.Journal){
		"cleaned by hand": func(t *testing.T, f *fakeExecutor, j *journal.Journal) {
			for _, desired := range []*infrav1.HostDesired{boot("b"), resets(infrav1.ResetPolicyManual)} {
				runUntil(t, testLoop(f, j), requested(2, "a", desired), ended(desired.OperationID))
			}
			runUntilOn(t, testLoop(f, j), anew(spec(0, "", nil)), func(s journal.State, _ *infrav1.ObservedOperation) bool { return len(s.Found) > 0 })
			f.dirty = false
		},
		"disowned": func(t *testing.T, _ *fakeExecutor, j *journal.Journal) {
			err := j.Update(func(s *journal.State) {
				s.HostUID, s.ClaimGeneration, s.ClaimID = "host", 2, "a"
				s.Operation = op("u", 2, infrav1.HostDesiredAdopted, infrav1.OperationRunning)
			})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, j := &fakeExecutor{}, journal.InMemory()
			leave(t, f, j)
			if s := runUntilOn(t, testLoop(f, j), anew(spec(0, "", nil)), proved); s.Operation != nil || s.HostUID != "another" {
				t.Errorf("of the Host before there is %+v, served is %q", s.Operation, s.HostUID)
			}
			if s := runUntilOn(t, testLoop(f, j), anew(requested(1, "c", boot("d"))), ended("d")); s.Operation.State != infrav1.OperationSucceeded {
				t.Errorf("operation %+v", s.Operation)
			}
			if name == "disowned" && !strings.HasPrefix(f.Calls(), "disown ") {
				t.Errorf("calls %q", f.Calls())
			}
		})
	}
}

// What is begun anew is a Host without claims on a clean machine, and nothing else:
// backups and moves give a Host another UID, too.
func TestEnrolledAgain(t *testing.T) {
	served := func(change func(*journal.State)) journal.State {
		s := journal.State{HostUID: "host", ClaimGeneration: 2, ClaimID: "a", ResetGeneration: 2}
		change(&s)
		return s
	}
	clean := func(*journal.State) {}
	for name, c := range map[string]struct {
		state journal.State
		uid   types.UID
		spec  *infrav1.HostSpec
		want  bool
		// undecided keeps the Host that is on record.
		undecided bool
	}{
		"enrolled again":                 {served(clean), "another", spec(0, "", nil), true, false},
		"the same Host, as it was once":  {served(clean), "host", spec(0, "", nil), false, false},
		"moved":                          {served(clean), "another", spec(2, "", nil), false, false},
		"restored from before its claim": {served(clean), "another", spec(1, "", nil), false, false},
		"restored with its first claim":  {served(clean), "another", spec(1, "b", boot("b")), false, false},
		"with something left on it":      {served(func(s *journal.State) { s.Residue = journal.ResidueCommands }), "another", spec(0, "", nil), false, true},
		"being adopted":                  {served(func(s *journal.State) { s.Operation = op("b", 2, infrav1.HostDesiredAdopted, infrav1.OperationRunning) }), "another", spec(0, "", nil), false, true},
		"waiting for its bootstrap data": {served(func(s *journal.State) {
			s.Operation = op("b", 2, infrav1.HostDesiredBootstrapped, infrav1.OperationRunning)
		}), "another", spec(0, "", nil), true, false},
		"a journal of an agent before this": {served(func(s *journal.State) { s.HostUID = "" }), "another", spec(0, "", nil), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := enrolledAgain(c.state, c.uid, c.spec); got != c.want {
				t.Fatalf("enrolled again: %t", got)
			}
			l := testLoop(&fakeExecutor{}, journal.InMemory())
			if err := errors.Join(l.Journal.Update(func(s *journal.State) { *s = c.state }), l.serve(c.uid, c.spec)); err != nil {
				t.Fatal(err)
			}
			s := l.Journal.State()
			served := c.uid
			if c.undecided {
				served = "host"
			}
			if begun := s.ClaimGeneration == 0 && s.ClaimID == "" && s.ResetGeneration == 0; begun != c.want || s.HostUID != served {
				t.Errorf("the journal has %+v", s)
			}
		})
	}
}

func TestRebootLoopEnds(t *testing.T) {
	f, j := &fakeExecutor{}, journal.InMemory()
	for range maxInterruptions + 2 {
		f.hang = make(chan struct{})
		l := testLoop(f, j)
		ctx, cancel := context.WithCancel(poll.Context(t))
		l.Changed = func(r *infrav1.ObservedOperation) {
			if ended("b")(j.State(), r) {
				cancel()
			}
		}
		go func() {
			select {
			case <-f.hang:
			case <-ctx.Done():
			}
			cancel()
		}()
		l.Observe(hostWith(requested(1, "a", boot("b"))))
		l.Run(ctx)
	}
	if o := j.State().Operation; o.State != infrav1.OperationFailed || o.Reason != operation.ReasonInterruptedTooOften {
		t.Fatalf("operation %+v", o)
	}
}

func TestForeignNodeIsNeitherTouchedNorProved(t *testing.T) {
	t.Run("found", func(t *testing.T) { unproved(t, &fakeExecutor{dirty: true}, "process kubelet") })
	t.Run("not looked through", func(t *testing.T) {
		unproved(t, &fakeExecutor{verifyErr: errors.New("read /proc: permission denied")}, "not known: read /proc: permission denied")
	})
}

// TestResetThatCannotBeVerified: where nothing is found after a reset, a step that failed does not
// matter, unless it is one whose leftovers nothing finds.
func TestResetThatCannotBeVerified(t *testing.T) {
	other := errors.New("kubeadm reset: exit code 1")
	for name, c := range map[string]struct {
		err   error
		tries string
	}{
		"a step": {other, "reset verify"},
		"one whose leftovers nothing finds": {errors.Join(other, fmt.Errorf("reset: network: %w", &operation.Unverifiable{Err: errors.New("iptables-restore: exit code 2")})),
			"reset verify reset verify"},
	} {
		t.Run(name, func(t *testing.T) {
			j := runningHost(t, filepath.Join(t.TempDir(), "journal"))
			f := &fakeExecutor{resetErrs: []error{c.err}, unseen: true}
			s := runUntil(t, testLoop(f, j), requested(1, "a", resets(infrav1.ResetPolicyKubeadm)), ended("r"))
			if s.CleanProof == nil || f.Calls() != c.tries {
				t.Errorf("calls %q, want %q; %+v", f.Calls(), c.tries, s.Operation)
			}
		})
	}
}

// TestFindingsAreRecordedOnce: a finding that is too long, or no UTF-8, is what the journal gives
// back, so that the next check records nothing.
func TestFindingsAreRecordedOnce(t *testing.T) {
	for name, found := range map[string]string{"long": "file /a" + strings.Repeat("é", 200), "no UTF-8": "file /\xff"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			j, err := journal.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			unprovedIn(t, j, &fakeExecutor{leftovers: []string{found}}, "file /")
			data, err := os.ReadFile(path)
			if n := strings.Count(string(data), `"found"`); err != nil || n != 1 {
				t.Errorf("recorded %d times: %v", n, err)
			}
		})
	}
}

func unproved(t *testing.T, f *fakeExecutor, found string) {
	t.Helper()
	unprovedIn(t, journal.InMemory(), f, found)
}

func unprovedIn(t *testing.T, j *journal.Journal, f *fakeExecutor, found string) {
	t.Helper()
	l := testLoop(f, j)
	var log bytes.Buffer
	l.Log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	l.After = func(time.Duration) <-chan time.Time {
		if strings.Count(f.Calls(), "verify") >= 2*unprovedTries {
			cancel()
		}
		past := make(chan time.Time)
		close(past)
		return past
	}
	clock := time.Unix(1_000_000_000, 0)
	l.Now = func() time.Time { clock = clock.Add(100 * time.Millisecond); return clock }
	l.Observe(hostWith(spec(0, "", nil)))
	l.Run(ctx)
	if j.State().CleanProof != nil || strings.Contains(f.Calls(), "reset") {
		t.Fatalf("proof %+v, calls %q", j.State().CleanProof, f.Calls())
	}
	if got := strings.Join(j.State().Found, "; "); !strings.Contains(got, found) {
		t.Errorf("on record is %q, want %q", got, found)
	}
	// Nobody has asked to adopt it.
	if got := log.String(); !strings.Contains(got, "not known to be clean") || strings.Contains(got, "adoption") {
		t.Errorf("the log has\n%s", got)
	}
}

// An agent whose watch is behind, or that does not reach the management cluster, does not begin to
// make the control plane, and resets nothing for another try: another host may have joined.
func TestInitIsConfirmed(t *testing.T) {
	wants := func(init bool) *infrav1.HostDesired {
		desired := boot("b")
		desired.VirtualIP, desired.InitializesControlPlane = "10.0.0.200", &init
		return desired
	}
	observed := requested(1, "a", wants(true))
	// The manager removes the data as well for a host that is no longer to make the control plane.
	withdrawn := hostWith(requested(1, "a", wants(false)))
	withdrawn.Spec.Desired.BootstrapSecretName = ""
	tried := journal.State{
		HostUID: "host", ClaimGeneration: 1, ClaimID: "a", Residue: journal.ResidueCommands, ResidueGeneration: 1,
		Operation: &journal.Operation{ID: "b", ClaimID: "a", ClaimGeneration: 1, Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationRunning, InitializesControlPlane: true, ResetFirst: true},
	}
	for name, c := range map[string]struct {
		before journal.State
		now    *infrav1.Host
		err    error
		reason string
	}{
		"before a try":             {journal.State{}, withdrawn, nil, operation.ReasonSecretUnavailable},
		"before a try, away":       {journal.State{}, nil, errors.New("no route to host"), operation.ReasonVirtualIPFailed},
		"before a reset":           {tried, withdrawn, nil, operation.ReasonControlPlaneExists},
		"before a reset, deleted":  {tried, hostWith(requested(1, "a", resets(""))), nil, ""},
		"before a reset, released": {tried, hostWith(spec(2, "", nil)), nil, ""},
		"before a reset, away":     {tried, nil, errors.New("no route to host"), operation.ReasonVirtualIPFailed},
	} {
		t.Run(name, func(t *testing.T) {
			f, j := &fakeExecutor{}, journal.InMemory()
			_ = j.Update(func(s *journal.State) { *s = c.before })
			l := testLoop(f, j)
			l.API = &fakeSecrets{host: c.now, hostErr: c.err}
			runUntil(t, l, observed, func(s journal.State, refused *infrav1.ObservedOperation) bool {
				_, now := l.current()
				changed := c.now != nil && reflect.DeepEqual(*now, c.now.Spec) && c.reason == ""
				told := s.Operation != nil && s.Operation.Reason == c.reason && c.reason != ""
				return changed || told || refused != nil && refused.Reason == c.reason
			})
			if calls := f.Calls(); calls != "" {
				t.Errorf("calls %q, want none", calls)
			}
		})
	}
}
