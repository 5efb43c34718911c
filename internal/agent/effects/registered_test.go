package effects_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/effectstest"
)

func TestNodeIsRegisteredOnce(t *testing.T) {
	const pinned = "--register-node=false"
	bootstrap := operation.Bootstrap{ProviderID: "slipway://ns/host-1/claim", Data: []byte("#cloud-config\n")}
	for name, c := range map[string]struct {
		before func(*effectstest.Host)
		pinned bool
		reason string
	}{
		"registered by this machine": {
			func(h *effectstest.Host) {
				h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = bootstrap.ProviderID })
			}, true, "",
		},
		"of a provider that gives IDs itself": {
			func(h *effectstest.Host) { h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-1" }) }, true, "",
		},
		"never registered": {func(h *effectstest.Host) { h.Node.Down = true }, false, ""},
		"left by an earlier machine": {
			func(h *effectstest.Host) {
				h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "slipway://ns/host-1/earlier" })
			}, false, operation.ReasonNodeExists,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := effectstest.New(t)
			c.before(h)
			err := h.Executor.Bootstrap(t.Context(), bootstrap, newRecord(t))
			reason := ""
			if err != nil {
				e := operation.AsError(err)
				if reason = e.Reason; e.Retry != operation.RetryAfterReset {
					t.Errorf("retry %v", e.Retry)
				}
			}
			if reason != c.reason {
				t.Errorf("error is %v, want reason %q", err, c.reason)
			}
			if got := read(t, h, "/etc/default/kubelet"); strings.Contains(got, pinned) != c.pinned {
				t.Errorf("the arguments of the kubelet are %q, want %s: %t", got, pinned, c.pinned)
			}
		})
	}
}
