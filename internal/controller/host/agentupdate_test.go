package host_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// The condition comes with the order, goes with it, and takes one write each time, beside
// which nothing changes.
func TestAgentUpdatedCondition(t *testing.T) {
	w := newWorld(t)
	agent := w.host("host-1")
	agent.Report(t, func(s *infrav1.HostStatus) { s.Inventory.AgentVersion = "v0.9.0" })
	counted := &testenv.Crash{}
	inner, err := client.NewWithWatch(asManager, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.Client = testenv.NewCrashing(inner, counted)
	if h, _ := w.reconcile(agent); conditions.Has(h, infrav1.AgentUpdatedCondition) {
		t.Errorf("a host that nobody asked has %+v", conditions.Get(h, infrav1.AgentUpdatedCondition))
	}
	settled := func(reason string) {
		t.Helper()
		before := counted.Writes()
		h, _ := w.reconcile(agent)
		if n := counted.Writes() - before; n != 1 {
			t.Errorf("%d writes for %q, want 1", n, reason)
		}
		if got := conditions.GetReason(h, infrav1.AgentUpdatedCondition); got != reason {
			t.Errorf("reason %q, want %q", got, reason)
		}
		if !conditions.IsTrue(h, clusterv1.ReadyCondition) || !conditions.IsTrue(h, infrav1.AvailableCondition) {
			t.Errorf("%q: Ready and Available are %+v, %+v", reason, conditions.Get(h, clusterv1.ReadyCondition), conditions.Get(h, infrav1.AvailableCondition))
		}
	}
	h := agent.Host(t)
	h.Spec.Agent = &infrav1.HostAgentSpec{Version: "v0.9.1", ReleaseDigest: "sha256:1111111111111111111111111111111111111111111111111111111111111111"}
	w.update(h)
	settled(infrav1.HostAgentUpdatingReason)
	agent.Report(t, func(s *infrav1.HostStatus) {
		s.AgentUpdate = &infrav1.HostAgentUpdate{Version: h.Spec.Agent.Version, ReleaseDigest: h.Spec.Agent.ReleaseDigest, State: infrav1.HostAgentUpdateFailed}
	})
	settled(infrav1.HostAgentUpdateFailedReason)
	agent.Report(t, func(s *infrav1.HostStatus) { s.AgentUpdate, s.Inventory.AgentVersion = nil, "v0.9.1" })
	settled(infrav1.HostAgentUpdatedReason)
	h = agent.Host(t)
	h.Spec.Agent = nil
	w.update(h)
	settled("")
}
