package effects_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/upgrade"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/fakehost"
)

const bootIDFile = "/proc/sys/kernel/random/boot_id"

// TestReboot tells a systemctl that the reboot itself ended from one that refused.
func TestReboot(t *testing.T) {
	for code, obeyed := range map[int]bool{0: true, 1: false, 143: true, 137: true, 134: false} {
		h := fakehost.New(t)
		if code != 0 {
			h.Programs.Fail = map[string]int{"systemctl reboot": code}
		}
		if err := h.Executor.Reboot(t.Context()); (err == nil) != obeyed {
			t.Errorf("systemctl ends with %d: %v", code, err)
		}
	}
}

// reboots has the host boot when it is asked to, or when its power comes back.
func reboots(t *testing.T, h *fakehost.Host) (boot func()) {
	t.Helper()
	boots := 1
	boot = func() {
		boots++
		id := fmt.Sprintf("boot-%d", boots)
		h.Put(t, bootIDFile, id+"\n")
		h.Node.Change(func(n *corev1.Node) { n.Status.NodeInfo.BootID = id })
	}
	h.Programs.On["systemctl reboot"] = func() { boot(); h.PowerCut() }
	return boot
}

func rebootSpec(n int, policy infrav1.RebootPolicy) *infrav1.HostSpec {
	spec := hostSpec(infrav1.HostDesiredRebooted, fmt.Sprintf("reboot-claim-%d", n))
	spec.Desired.RebootPolicy = policy
	return spec
}

func assertServes(t *testing.T, h *fakehost.Host, s journal.State) {
	t.Helper()
	if n := node(t, h); n.Spec.Unschedulable || n.Annotations[upgrade.CordonAnnotation] != "" || s.Cordoned {
		t.Errorf("the Node is cordoned: unschedulable %t, annotations %v, journal %t", n.Spec.Unschedulable, n.Annotations, s.Cordoned)
	}
}

// A Node is cordoned and drained before the host goes down, and takes pods again once it is back.
func TestDrainBeforeReboot(t *testing.T) {
	h, path := claimedWorker(t)
	reboots(t, h)
	h.Node.Conflicts = 2
	_, down := process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
	if n := node(t, h); !down || !n.Spec.Unschedulable || n.Annotations[upgrade.CordonAnnotation] == "" || !slices.Equal(h.Node.Evicted, []string{"app"}) {
		t.Fatalf("down: %t, unschedulable %t, annotations %v, evicted %v", down, n.Spec.Unschedulable, n.Annotations, h.Node.Evicted)
	}
	s, _ := process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
	if s.Operation.State != infrav1.OperationSucceeded || h.Programs.RanPrefix("systemctl reboot") != 1 {
		t.Errorf("%d reboots, operation %+v", h.Programs.RanPrefix("systemctl reboot"), s.Operation)
	}
	assertServes(t, h, s)
}

// TestKillRebootAtEveryRecord ends the agent, or cuts the power, before each record of a reboot that drains:
// in the boot before and in the one after. The host is rebooted once, and somebody else's cordon stays.
func TestKillRebootAtEveryRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ after, powerCut, cordoned bool }{
		{false, false, false}, {false, true, false}, {true, false, false}, {true, true, false}, {false, false, true}, {false, true, true}, {true, true, true},
	} {
		for at := range level.Endless() {
			done := false
			t.Run(fmt.Sprintf("%+v/record %d", c, at), func(t *testing.T) {
				h, path := claimedWorker(t)
				boot := reboots(t, h)
				h.Node.Change(func(n *corev1.Node) { n.Spec.Unschedulable = c.cordoned })
				spec, before := rebootSpec(1, infrav1.RebootDrain), read(t, h, bootIDFile)
				if c.after {
					process(t, h, path, spec, 0)
					_, crashed := process(t, h, path, spec, at)
					done = !crashed
				} else {
					process(t, h, path, spec, at)
					done = read(t, h, bootIDFile) != before
				}
				if c.powerCut && !done {
					boot()
				}
				s, _ := process(t, h, path, spec, 0)
				if s.Operation.State == infrav1.OperationRunning {
					s, _ = process(t, h, path, spec, 0)
				}
				if n := h.Programs.RanPrefix("systemctl reboot"); s.Operation.State != infrav1.OperationSucceeded || n > 1 || !c.powerCut && n != 1 {
					t.Errorf("%d reboots, operation %+v", n, s.Operation)
				}
				if !c.cordoned {
					assertServes(t, h, s)
				} else if !node(t, h).Spec.Unschedulable || s.Cordoned {
					t.Error("somebody else's cordon is undone")
				}
			})
			if done || t.Failed() {
				break
			}
		}
	}
}

// A reboot that a budget holds, that the host refuses, or after which no kubelet comes, ends with a Node that
// takes pods as soon as it is ready.
func TestRebootsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fakehost.Host)
		reason string
		part   string
		reboot bool
	}{
		"budget":         {func(h *fakehost.Host) { h.Node.Budgets = []string{"app"} }, operation.ReasonDrainTimeout, "default/app (held by a disruption budget since ", false},
		"refused":        {func(h *fakehost.Host) { h.Programs.Fail = map[string]int{"systemctl reboot": 1} }, operation.ReasonNotRebooted, "ask the host to reboot", true},
		"kubelet stays":  {func(h *fakehost.Host) { h.Programs.On["systemctl reboot"] = anotherBoot(h.Root, h) }, operation.ReasonNodeNotReady, "has not reported since the reboot", true},
		"no API server":  {func(h *fakehost.Host) { h.Executor.Upgrader.Connect = noCredential }, operation.ReasonNodeUnreachable, "reach the Node", false},
		"kubelet is ill": {func(h *fakehost.Host) { h.Programs.On["systemctl reboot"] = illKubelet(h) }, operation.ReasonNodeNotReady, "PLEG is not healthy", true},
	} {
		t.Run(name, func(t *testing.T) {
			h, path := claimedWorker(t)
			reboots(t, h)
			c.before(h)
			s, _ := process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
			if s.Operation.State == infrav1.OperationRunning {
				s, _ = process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
			}
			op := s.Operation
			if op.State != infrav1.OperationFailed || op.Reason != c.reason || !strings.Contains(op.Message, c.part) {
				t.Errorf("the operation is %+v", op)
			}
			if asked := h.Programs.RanPrefix("systemctl reboot") > 0; asked != c.reboot {
				t.Errorf("the host was asked to reboot: %t", asked)
			}
			assertServes(t, h, s)
		})
	}
}

func noCredential() (upgrade.Node, error) { return nil, fmt.Errorf("no credential") }

// anotherBoot is one in which no kubelet reports.
func anotherBoot(root hostfs.Root, h *fakehost.Host) func() {
	return func() {
		if err := os.WriteFile(root.Path(bootIDFile), []byte("boot-2\n"), 0o600); err == nil {
			h.PowerCut()
		}
	}
}

func illKubelet(h *fakehost.Host) func() {
	return func() {
		h.Node.Change(func(n *corev1.Node) {
			n.Status.NodeInfo.BootID = "boot-2"
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "PLEG is not healthy"}}
		})
		anotherBoot(h.Root, h)()
	}
}

// A reboot that does not drain overtakes one that does, and gives the Node back.
func TestRebootOvertakesADrain(t *testing.T) {
	h, path := claimedWorker(t)
	reboots(t, h)
	h.Node.Budgets = []string{"app"}
	h.Executor.Upgrader.Sleep = func(ctx context.Context, d time.Duration) error { h.PowerCut(); return ctx.Err() }
	s, _ := process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
	if op := s.Operation; !node(t, h).Spec.Unschedulable || op.Reason != operation.ReasonEvictionsRefused {
		t.Fatalf("the Node is not cordoned, or the operation says nothing of the budget: %+v", op)
	}
	for range 2 {
		s, _ = process(t, h, path, rebootSpec(2, infrav1.RebootImmediate), 0)
	}
	if s.Operation.State != infrav1.OperationSucceeded || len(h.Node.Evicted) > 0 {
		t.Errorf("evicted are %v, operation %+v", h.Node.Evicted, s.Operation)
	}
	assertServes(t, h, s)
}

// One that overtakes and is refused gives the Node back as well.
func TestRefusedRebootAfterADrain(t *testing.T) {
	h, path := claimedWorker(t)
	reboots(t, h)
	h.Node.Budgets = []string{"app"}
	sleep := h.Executor.Upgrader.Sleep
	h.Executor.Upgrader.Sleep = func(ctx context.Context, d time.Duration) error { h.PowerCut(); return ctx.Err() }
	process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
	h.Executor.Upgrader.Sleep = sleep
	h.Programs.Fail = map[string]int{"systemctl reboot": 1}
	s, _ := process(t, h, path, rebootSpec(2, infrav1.RebootImmediate), 0)
	if op := s.Operation; op.State != infrav1.OperationFailed || op.Reason != operation.ReasonNotRebooted {
		t.Errorf("the operation is %+v", op)
	}
	assertServes(t, h, s)
}

// A control plane keeps its quorum: one of fewer than three members is refused, one with a member that is
// not healthy waits, before its Node is cordoned.
func TestRebootKeepsQuorum(t *testing.T) {
	t.Run("three", func(t *testing.T) {
		h, c, path := controlPlaneHost(t)
		reboots(t, h)
		for range 2 {
			process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
		}
		s, _ := process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
		if s.Operation.State != infrav1.OperationSucceeded || c.HandOvers != 1 {
			t.Errorf("%d times the address was given away, operation %+v", c.HandOvers, s.Operation)
		}
		assertServes(t, h, s)
	})
	t.Run("one", func(t *testing.T) {
		h, c, path := controlPlaneHost(t)
		reboots(t, h)
		c.Members = c.Members[:1]
		s, _ := process(t, h, path, rebootSpec(1, infrav1.RebootDrain), 0)
		if op := s.Operation; op.State != infrav1.OperationFailed || op.Reason != operation.ReasonControlPlaneHost || !strings.Contains(op.Message, "etcd has 1 members") {
			t.Errorf("the operation is %+v", op)
		}
		assertServes(t, h, s)
	})
	t.Run("ill", func(t *testing.T) {
		h, c, _ := controlPlaneHost(t)
		reboots(t, h)
		c.Sick = []string{"https://10.0.0.7:2379"}
		progress := newRecord(t)
		err := h.Executor.PrepareReboot(t.Context(), true, progress, func(context.Context) error { t.Error("the host goes down"); return nil })
		if e := operation.AsError(err); e.Retry != operation.RetryLater || !strings.Contains(e.Message, "host-3 is not healthy") || node(t, h).Spec.Unschedulable {
			t.Errorf("got %+v, unschedulable %t", e, node(t, h).Spec.Unschedulable)
		}
	})
}
