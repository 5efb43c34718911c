package effects_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/test/fakehost"
)

func TestNodeIsRegisteredOnce(t *testing.T) {
	const pinned = "--register-node=false"
	bootstrap := operation.Bootstrap{ProviderID: "slipway://ns/host-1/claim", Data: []byte("#cloud-config\n")}
	for name, c := range map[string]struct {
		before func(*fakehost.Host)
		pinned bool
		reason string
	}{
		"registered by this machine": {
			func(h *fakehost.Host) {
				h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = bootstrap.ProviderID })
			}, true, "",
		},
		"of a provider that gives IDs itself": {
			func(h *fakehost.Host) { h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-1" }) }, true, "",
		},
		"never registered": {func(h *fakehost.Host) { h.Node.Down = true }, false, ""},
		"left by an earlier machine": {
			func(h *fakehost.Host) {
				h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "slipway://ns/host-1/earlier" })
			}, false, operation.ReasonNodeExists,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			c.before(h)
			err := h.Executor.Bootstrap(t.Context(), bootstrap, newRecord(t))
			reason := ""
			if err != nil {
				e := operation.AsError(err)
				if reason = e.Reason; e.Retry != operation.RetryWhenAccepted || !strings.Contains(e.Message, "`kubectl delete node ") {
					t.Errorf("retry %v, message %s", e.Retry, e.Message)
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

// A Node that is gone comes back with a reboot, and with nothing else.
func TestNodeIsRegisteredAnew(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "host-1")
	for name, c := range map[string]struct {
		before, after error
		reboot        bool // whether the kubelet may register in the next boot
		pinned        bool // whether it is kept from it in the end
	}{
		"there":              {nil, nil, false, true},
		"gone, and is back":  {gone, nil, true, true},
		"gone for good":      {gone, gone, true, false},
		"nobody knows":       {apierrors.NewServiceUnavailable("restarts"), nil, false, true},
		"no right to see it": {apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "host-1", nil), nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			pinned := func(h *fakehost.Host) bool {
				return strings.Contains(read(t, h, "/etc/default/kubelet"), "--register-node=false")
			}
			h := fakehost.New(t)
			if err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{Data: []byte("#cloud-config\n")}, newRecord(t)); err != nil || !pinned(h) {
				t.Fatalf("pinned at first: %t, %v", pinned(h), err)
			}
			h.Node.Fails = c.before
			if err := h.Executor.Reboot(t.Context()); err != nil || pinned(h) == c.reboot {
				t.Errorf("pinned before the reboot: %t, %v", pinned(h), err)
			}
			h.Node.Fails = c.after
			if err := h.Executor.Rebooted(t.Context()); err != nil || pinned(h) != c.pinned {
				t.Errorf("pinned after the reboot: %t, %v", pinned(h), err)
			}
		})
	}
}
