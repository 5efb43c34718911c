package hostmachine_test

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func reboot(n int32, policy infrav1.RebootPolicy) func(*infrav1.HostMachineSpec) {
	return func(s *infrav1.HostMachineSpec) { s.Reboots, s.RebootPolicy = ptr.To(n), policy }
}

// What holds up a drain is named by the machine's condition, health checks pass over the machine meanwhile, and a
// reboot that does not drain goes ahead.
func TestRebootThatDrains(t *testing.T) {
	w, agent, key := runs(t)
	m := w.change(key, reboot(1, infrav1.RebootDrain))
	desired := agent.Host(t).Spec.Desired
	if desired.Phase != infrav1.HostDesiredRebooted || desired.RebootPolicy != infrav1.RebootDrain {
		t.Fatalf("desired = %+v", desired)
	}
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.ObservedOperation = &infrav1.ObservedOperation{ID: desired.OperationID, ClaimID: m.Spec.ClaimID, Phase: desired.Phase, State: infrav1.OperationRunning,
			Step: "reboot: drain", Reason: "EvictionsRefused", Message: "waiting for default/web (held by a disruption budget since 2026-11-29T12:00:00Z)"}
	})
	m, _ = w.reconcile(key)
	wantCondition(t, m, infrav1.RebootedCondition, infrav1.HostMachineEvictionsRefusedReason, "default/web (held by a disruption budget since 2026-11-29T12:00:00Z). Relax")
	w.expectMark(key, "while the host drains", infrav1.WaitingForHostMark)
	w.clock.Step(31 * time.Minute)
	w.reconcile(key)
	w.expectMark(key, "when the host does not come to an end", "none")

	w.change(key, reboot(2, infrav1.RebootImmediate))
	if desired := agent.Host(t).Spec.Desired; *desired.Reboots != 2 || desired.RebootPolicy != infrav1.RebootImmediate {
		t.Fatalf("desired = %+v", desired)
	}
	agent.Obey(t, w.clock.Now())
	m, _ = w.reconcile(key)
	wantCondition(t, m, infrav1.RebootedCondition, infrav1.HostMachineRebootedReason, "")
}

// An agent that knows no drain would reboot without one.
func TestRebootWaitsForTheAgentsVersion(t *testing.T) {
	w, agent, key := runs(t)
	w.Version = "v0.9.0"
	report := func(version string) {
		agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.AgentVersion = version })
	}
	report("v0.8.3")
	m := w.change(key, reboot(1, infrav1.RebootDrain))
	wantCondition(t, m, infrav1.RebootedCondition, infrav1.HostMachineRebootPendingReason, "its agent is v0.8.3")
	if desired := agent.Host(t).Spec.Desired; desired.Phase == infrav1.HostDesiredRebooted {
		t.Fatalf("desired = %+v", desired)
	}
	report("v0.9.1")
	w.reconcile(key)
	if desired := agent.Host(t).Spec.Desired; desired.RebootPolicy != infrav1.RebootDrain {
		t.Fatalf("desired = %+v", desired)
	}
}

// Of one control plane a single host drains and reboots; those of others do not matter.
func TestControlPlanesRebootOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	w.setCluster(initializedByCondition)
	keys, agents := map[string]client.ObjectKey{}, map[string]*testenv.Agent{}
	for _, name := range []string{"m1", "m2"} {
		agents[name] = w.host("host-" + name)
		keys[name] = w.machine(name, controlPlane)
		m, _ := w.reconcile(keys[name])
		if m.Status.HostRef.Name != "host-"+name {
			t.Fatalf("%s has %s", name, m.Status.HostRef.Name)
		}
		agents[name].Obey(t, w.clock.Now())
		w.reconcile(keys[name])
	}
	w.change(keys["m1"], reboot(1, infrav1.RebootDrain))
	m := w.change(keys["m2"], reboot(1, infrav1.RebootDrain))
	wantCondition(t, m, infrav1.RebootedCondition, infrav1.HostMachineRebootPendingReason, "Host host-m1 of the same control plane is Rebooting")
	if h := agents["m2"].Host(t); host.Draining(h) || !host.Draining(agents["m1"].Host(t)) {
		t.Fatalf("desired = %+v", h.Spec.Desired)
	}
	agents["m1"].Obey(t, w.clock.Now())
	w.reconcile(keys["m2"])
	if !host.Draining(agents["m2"].Host(t)) {
		t.Error("the second host waits still")
	}
}
