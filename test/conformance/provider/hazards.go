package provider

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// hazardRules are what sinks providers without breaking a contract (docs/hazards.md).
var hazardRules = []Rule{
	{"rotatedSecret", true, rotatedSecret},
	{"releasedClass", true, releasedClass},
	{"controlPlaneRacks", true, controlPlaneRacks},
}

// The bootstrap provider rewrites its Secret whenever a token runs out, and deletes
// it with the pool: neither touches a machine that runs. A pool or a host that finds
// no Secret waits for the next one, and says so.
func rotatedSecret(t *testing.T, s *Suite) {
	rotations := 5
	if level.IsDeep() {
		rotations = 100
	}
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
	f.awaitMissingSecret(p, second)
	f.create(f.bootstrapSecret("bootstrap-" + poolName))
	f.awaitNodes(p, 2)
	testenv.Object(t, s.Client, p.infra, "the pool has judged both machines by the new Secret", func(infra *infrav1.HostMachinePool) string {
		return unless(infra.Status.Replicas == 2 && conditions.IsTrue(infra, clusterv1.MachinesUpToDateCondition), "%+v", infra.Status)
	})
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&member), &member); err != nil || !member.DeletionTimestamp.IsZero() {
		t.Errorf("the machine that ran was replaced: %v, deleted %v", err, member.DeletionTimestamp)
	}
	// An agent may reset a host before another try of its own; a machine that is replaced gives its claim up.
	for _, key := range []client.ObjectKey{hosts[0].key, second.key} {
		var host infrav1.Host
		if err := s.Client.Get(t.Context(), key, &host); err != nil || host.Spec.ClaimGeneration != 1 {
			t.Errorf("%s was claimed %d times: %v", key.Name, host.Spec.ClaimGeneration, err)
		}
	}
}

// awaitMissingSecret waits until somebody says that the Secret is missing: the pool
// before it makes a member, or the host when it went in between.
func (f *fixture) awaitMissingSecret(p *pool, h *simulatedHost) {
	f.t.Helper()
	poll.Until(f.t, "the pool or the host waits for the Secret", func() error {
		var host infrav1.Host
		if err := f.Client.Get(f.t.Context(), h.key, &host); err != nil {
			return err
		}
		if op := host.Status.ObservedOperation; op != nil && op.State == infrav1.OperationRunning && op.Reason == operation.ReasonSecretUnavailable {
			return nil
		}
		var pool infrav1.HostMachinePool
		if err := f.Client.Get(f.t.Context(), client.ObjectKeyFromObject(p.infra), &pool); err != nil {
			return err
		}
		for _, c := range pool.Status.Conditions {
			if strings.Contains(c.Message, "bootstrap data") {
				return nil
			}
		}
		return fmt.Errorf("the pool says %v, the host %v", pool.Status.Conditions, host.Status.ObservedOperation)
	})
}
