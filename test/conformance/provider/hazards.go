package provider

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/operation"
)

// hazardRules are what sinks providers without breaking a contract (docs/hazards.md).
var hazardRules = []Rule{
	{"rotatedSecret", true, rotatedSecret},
}

// The bootstrap provider rewrites its Secret whenever a token runs out, and deletes
// it with the pool: neither touches a machine that runs. A host that finds no Secret
// waits for the next one.
func rotatedSecret(t *testing.T, s *Suite) {
	const rotations = 100
	f, p, hosts := newRunningPool(t, s, 1)
	member := f.members(p)[0]
	secret := f.bootstrapSecret("bootstrap-" + poolName)
	for i := range rotations {
		change(t, s, secret, func(c *corev1.Secret) { c.Data["value"] = fmt.Appendf(nil, "#cloud-config\n# token %d\n", i) })
	}
	if err := s.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	second := s.addHost(t, f.namespace, "h2")
	f.scale(p, 2)
	h := &infrav1.Host{}
	h.Namespace, h.Name = second.key.Namespace, second.key.Name
	reach(t, s, h, "the host waits for the Secret", func(h *infrav1.Host) string {
		op := h.Status.ObservedOperation
		return unless(op != nil && op.State == infrav1.OperationRunning && op.Reason == operation.ReasonSecretUnavailable, "%v", op)
	})
	f.create(f.bootstrapSecret("bootstrap-" + poolName))
	f.awaitNodes(p, 2)
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&member), &member); err != nil || !member.DeletionTimestamp.IsZero() {
		t.Errorf("the machine that ran was replaced: %v, deleted %v", err, member.DeletionTimestamp)
	}
	if n := hosts[0].executor.finishedResets() + second.executor.finishedResets(); n != 0 {
		t.Errorf("%d resets", n)
	}
}
