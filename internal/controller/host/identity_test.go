package host_test

import (
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
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
		if c := conditions.Get(h, conditionType); c.Reason != host.ReasonDuplicate || !strings.Contains(c.Message, "Host "+w.namespace+"/host-1 has the same machine-id") {
			t.Errorf("%s = %+v", conditionType, c)
		}
	}
	if why := host.Unavailable(h, true); why.Reason != host.ReasonDuplicate {
		t.Errorf("the clone may be claimed: %+v", why)
	}
	h, _ = w.reconcile(original)
	if c := conditions.Get(h, infrav1.DuplicateIdentityCondition); c.Reason != host.ReasonDuplicate || !strings.Contains(c.Message, w.namespace+"/host-2") {
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

// A machine that enrolled under two names has one key.
func TestSameKeyTwice(t *testing.T) {
	w := newWorld(t)
	sameKey := func(h *infrav1.Host) { h.Spec.HostID = "key-of-" + w.namespace }
	first, second := w.host("host-1", sameKey), w.host("host-2", sameKey)
	w.reconcile(first)
	h, _ := w.reconcile(second)
	if c := conditions.Get(h, infrav1.DuplicateIdentityCondition); c.Reason != host.ReasonDuplicate || !strings.Contains(c.Message, "same key") {
		t.Errorf("DuplicateIdentity = %+v", c)
	}
}

func TestUnsupportedAgent(t *testing.T) {
	w := newWorld(t)
	w.Version = "v0.5.0"
	agent := w.host("host-1")
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.AgentVersion = "v0.3.1" })
	h, _ := w.reconcile(agent)
	if c := conditions.Get(h, infrav1.AvailableCondition); c.Reason != host.ReasonAgentTooOld || !strings.Contains(c.Message, "Upgrade slipway-agent") {
		t.Errorf("Available = %+v", c)
	}
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.AgentVersion = "v0.4.0" })
	if h, _ = w.reconcile(agent); !conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Errorf("conditions = %+v", h.Status.Conditions)
	}
}
