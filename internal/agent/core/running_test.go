package core

import (
	"context"
	"path/filepath"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

// runningHost is the journal of a host that was bootstrapped for claim "a".
func runningHost(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if j.State().ClaimID != "" {
		return j
	}
	err = j.Update(func(s *journal.State) {
		s.ClaimGeneration, s.ClaimID, s.BootstrappedClaimID, s.Residue = 1, "a", "a", journal.ResidueCommands
	})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestFailedUpgradeIsTriedAgainWithoutReset(t *testing.T) {
	f := &fakeExecutor{upgradeErrs: []error{
		&operation.Error{Reason: operation.ReasonKubeadmFailed, Message: "exit code 1"},
		&operation.Error{Reason: operation.ReasonNodeUnreachable, Message: "refused", Retry: operation.RetryLater},
	}}
	s := runUntil(t, testLoop(f, runningHost(t, filepath.Join(t.TempDir(), "journal"))), spec(1, "a", runs(infrav1.HostDesiredUpgraded)), ended("u"))
	if s.Operation.State != infrav1.OperationSucceeded || s.Operation.Failures != 1 || s.BootstrappedClaimID != "a" {
		t.Errorf("operation %+v", s.Operation)
	}
	if got, want := f.Calls(), "upgrade:v1.36.3 upgrade:v1.36.3 upgrade:v1.36.3"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// TestReboot goes through the lives of an agent: the one that reboots the host, one
// that is started again in the same boot, and one of the next boot.
func TestReboot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	for life, c := range []struct {
		bootID string
		calls  string
		done   bool
	}{
		{"boot-1", "reboot", false}, {"boot-1", "reboot", false}, {"boot-2", "rebooted", true}, {"boot-3", "", true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fakeExecutor{onReboot: cancel}
		l := testLoop(f, runningHost(t, path))
		l.BootID = c.bootID
		l.Changed = func(*infrav1.ObservedOperation) {
			if s := l.Journal.State(); s.Operation != nil && s.Operation.State != infrav1.OperationRunning {
				cancel()
			}
		}
		l.Observe(hostWith(spec(1, "a", runs(infrav1.HostDesiredRebooted))))
		l.Run(ctx)
		op := l.Journal.State().Operation
		if f.Calls() != c.calls || (op.State == infrav1.OperationSucceeded) != c.done {
			t.Errorf("life %d in %s: calls %q, operation %+v", life, c.bootID, f.Calls(), op)
		}
	}
}

// A host drains before it reboots if it is asked to, and a power cut in the meantime is the reboot.
func TestRebootThatDrains(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	drains := spec(1, "a", runs(infrav1.HostDesiredRebooted))
	drains.Desired.RebootPolicy = infrav1.RebootDrain
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeExecutor{onReboot: cancel}
	l := testLoop(f, runningHost(t, path))
	l.Observe(hostWith(drains))
	l.Run(ctx)
	if got := f.Calls(); got != "drain reboot" {
		t.Errorf("calls %q", got)
	}

	path = filepath.Join(t.TempDir(), "journal")
	j := runningHost(t, path)
	if err := j.Update(func(s *journal.State) { begin(s, drains, l.Now()); step(s, "reboot: drain", "boot-0", l.Now()) }); err != nil {
		t.Fatal(err)
	}
	f = &fakeExecutor{}
	s := runUntil(t, testLoop(f, j), drains, ended("u"))
	if got := f.Calls(); got != "rebooted" || s.Operation.State != infrav1.OperationSucceeded {
		t.Errorf("after a power cut: calls %q, operation %+v", got, s.Operation)
	}
}

func TestRebootThatDoesNotHappen(t *testing.T) {
	f := &fakeExecutor{}
	s := runUntil(t, testLoop(f, runningHost(t, filepath.Join(t.TempDir(), "journal"))), spec(1, "a", runs(infrav1.HostDesiredRebooted)), ended("u"))
	if s.Operation.Reason != operation.ReasonNotRebooted || s.Operation.Failures != maxTries {
		t.Errorf("operation %+v", s.Operation)
	}
	l := testLoop(f, runningHost(t, filepath.Join(t.TempDir(), "journal")))
	l.BootID = ""
	if s := runUntil(t, l, spec(1, "a", runs(infrav1.HostDesiredRebooted)), ended("u")); s.Operation.Reason != operation.ReasonBootIDUnknown {
		t.Errorf("without a boot ID: %+v", s.Operation)
	}
}
