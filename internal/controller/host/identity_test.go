package host_test

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// The disk of a running host is cloned: both are refused by name, the one that
// runs goes on, and the other is not claimable.
func TestClonedDisk(t *testing.T) {
	w := newWorld(t)
	machineID := func(id string) func(*infrav1.HostStatus) {
		return func(s *infrav1.HostStatus) { s.Inventory.MachineID = id }
	}
	original, clone := w.host("host-1"), w.host("host-2")
	id := "machine-of-" + w.namespace
	original.Report(t, machineID(id))
	w.claim(original, infrav1.HostDesiredBootstrapped)
	original.Obey(t, w.clock.Now())
	w.reconcile(original)
	clone.Report(t, machineID(id))

	h, _ := w.reconcile(clone)
	for _, conditionType := range []string{infrav1.AvailableCondition, clusterv1.ReadyCondition} {
		if c := conditions.Get(h, conditionType); c.Reason != infrav1.HostDuplicateIdentityReason || !strings.Contains(c.Message, "Host "+w.namespace+"/host-1 has the same machine-id") {
			t.Errorf("%s = %+v", conditionType, c)
		}
	}
	if why := host.Unavailable(h, true); why.Reason != infrav1.HostDuplicateIdentityReason {
		t.Errorf("the clone may be claimed: %+v", why)
	}
	h, _ = w.reconcile(original)
	if c := conditions.Get(h, infrav1.DuplicateIdentityCondition); c.Reason != infrav1.HostDuplicateIdentityReason || !strings.Contains(c.Message, w.namespace+"/host-2") {
		t.Errorf("DuplicateIdentity of the original = %+v", c)
	}
	if h.Spec.Claim == nil || h.Spec.Desired.Phase != infrav1.HostDesiredBootstrapped || !conditions.IsTrue(h, clusterv1.ReadyCondition) {
		t.Errorf("the host that runs was touched: %+v", h.Spec)
	}

	clone.Report(t, machineID(id+"-new"))
	if h, _ = w.reconcile(clone); !conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Errorf("the clone has an identity of its own now: %+v", h.Status.Conditions)
	}
}

// TestTenantsDoNotBlockEachOther: the machine-id is an agent's mere word. A tenant who
// reports that of another's host takes it out of use for nobody, and learns nothing.
func TestTenantsDoNotBlockEachOther(t *testing.T) {
	victim, attacker := newWorld(t), newWorld(t)
	id := "machine-of-" + victim.namespace
	reported := func(s *infrav1.HostStatus) { s.Inventory.MachineID = id }
	own, forged := victim.host("host-1"), attacker.host("forged")
	own.Report(t, reported)
	forged.Report(t, reported)
	for _, tc := range []struct {
		w     *world
		agent *testenv.Agent
		other string
	}{{victim, own, attacker.namespace}, {attacker, forged, victim.namespace}} {
		h, _ := tc.w.reconcile(tc.agent)
		if !conditions.IsTrue(h, infrav1.AvailableCondition) || conditions.IsTrue(h, infrav1.DuplicateIdentityCondition) {
			t.Errorf("Host %s is blocked from another namespace: %+v", h.Name, h.Status.Conditions)
		}
		tc.w.tellsNothingOf(h, tc.other)
	}
}

// TestSameKeyInAnotherNamespace: one machine for two tenants is refused to both; neither
// learns who the other is.
func TestSameKeyInAnotherNamespace(t *testing.T) {
	one, other := newWorld(t), newWorld(t)
	sameKey := func(h *infrav1.Host) { h.Spec.HostID = "key-of-" + one.namespace }
	first, second := one.host("host-1", sameKey), other.host("host-2", sameKey)
	for _, tc := range []struct {
		w      *world
		agent  *testenv.Agent
		secret string
	}{{one, first, other.namespace}, {other, second, one.namespace + "/"}} {
		h, _ := tc.w.reconcile(tc.agent)
		if c := conditions.Get(h, infrav1.AvailableCondition); c.Reason != infrav1.HostDuplicateIdentityReason || !strings.Contains(c.Message, "A Host of another namespace has the same key") {
			t.Errorf("Available = %+v", c)
		}
		tc.w.tellsNothingOf(h, tc.secret)
	}
}

// tellsNothingOf holds that neither conditions nor events of a host name another's.
func (w *world) tellsNothingOf(h *infrav1.Host, other string) {
	w.t.Helper()
	for _, c := range h.Status.Conditions {
		if strings.Contains(c.Message, other) {
			w.t.Errorf("%s tells of %s: %s", c.Type, other, c.Message)
		}
	}
	for len(w.events) > 0 {
		if event := <-w.events; strings.Contains(event, other) {
			w.t.Errorf("an event tells of %s: %s", other, event)
		}
	}
}

// A machine that enrolled under two names has one key.
func TestSameKeyTwice(t *testing.T) {
	w := newWorld(t)
	sameKey := func(h *infrav1.Host) { h.Spec.HostID = "key-of-" + w.namespace }
	first, second := w.host("host-1", sameKey), w.host("host-2", sameKey)
	w.reconcile(first)
	h, _ := w.reconcile(second)
	if c := conditions.Get(h, infrav1.DuplicateIdentityCondition); c.Reason != infrav1.HostDuplicateIdentityReason || !strings.Contains(c.Message, "same key") {
		t.Errorf("DuplicateIdentity = %+v", c)
	}
}

func TestUnsupportedAgent(t *testing.T) {
	w := newWorld(t)
	w.Version = "v0.5.0"
	agent := w.host("host-1")
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.AgentVersion = "v0.3.1" })
	h, _ := w.reconcile(agent)
	if c := conditions.Get(h, infrav1.AvailableCondition); c.Reason != infrav1.HostAgentTooOldReason || !strings.Contains(c.Message, "Upgrade slipway-agent") {
		t.Errorf("Available = %+v", c)
	}
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.AgentVersion = "v0.4.0" })
	if h, _ = w.reconcile(agent); !conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Errorf("conditions = %+v", h.Status.Conditions)
	}
}
