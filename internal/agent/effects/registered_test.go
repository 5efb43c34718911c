package effects_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/test/fakehost"
)

const pinned = "--register-node=false"

func TestNodeIsRegisteredOnce(t *testing.T) {
	bootstrap := operation.Bootstrap{ProviderID: "slipway://ns/host-1/claim", Data: []byte("#cloud-config\n")}
	for name, c := range map[string]struct {
		before func(*fakehost.Host)
		pinned bool
	}{
		"registered by this machine": {
			func(h *fakehost.Host) {
				h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = bootstrap.ProviderID })
			}, true,
		},
		"of a provider that gives IDs itself": {
			func(h *fakehost.Host) { h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID = "aws:///i-1" }) }, true,
		},
		"never registered": {func(h *fakehost.Host) { h.Node.Down = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			c.before(h)
			err := h.Executor.Bootstrap(t.Context(), bootstrap, newRecord(t))
			if err != nil {
				t.Error(err)
			}
			if got := read(t, h, "/etc/default/kubelet"); strings.Contains(got, pinned) != c.pinned {
				t.Errorf("the arguments of the kubelet are %q, want %s: %t", got, pinned, c.pinned)
			}
		})
	}
}

// The Node of an earlier machine on this host has another providerID for ever. A control plane deletes it, and no
// other one; a worker says how, and tries as long as that takes. That of another host is nobody's to delete.
func TestNodeThatWasLeftBehind(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, c := range map[string]struct {
		providerID string
		answer     error
		deletes    bool
		tries      int
		message    string
	}{
		"on a control plane":           {"slipway://ns/host-1/earlier", nil, true, 0, "This control plane deleted it"},
		"deleted by somebody else":     {"slipway://ns/host-1/earlier", apierrors.NewNotFound(nodes, "host-1"), true, 0, "This control plane deleted it"},
		"on a worker":                  {"slipway://ns/host-1/earlier", fs.ErrNotExist, true, 0, "`kubectl delete node host-1`"},
		"made anew since":              {"slipway://ns/host-1/earlier", apierrors.NewConflict(nodes, "host-1", nil), true, 0, "`kubectl delete node host-1`"},
		"of a host with the same name": {"slipway://ns/host-2/claim", nil, false, operation.PatientTries, "another host (slipway://ns/host-2/claim)"},
		"of another namespace":         {"slipway://other/host-1/claim", nil, false, operation.PatientTries, "rename one of the two"},
		"malformed":                    {"slipway://" + strings.Repeat("x", 2000), nil, false, operation.PatientTries, "rename one of the two"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fakehost.New(t)
			h.Node.Change(func(n *corev1.Node) { n.Spec.ProviderID, n.UID = c.providerID, "uid" })
			deleted := 0
			h.Executor.DeleteNode = func(_ context.Context, node *corev1.Node) error {
				if node.Name != "host-1" || node.UID != "uid" {
					t.Errorf("deletes %s %s", node.Name, node.UID)
				}
				deleted++
				return c.answer
			}
			err := h.Executor.Bootstrap(t.Context(), operation.Bootstrap{ProviderID: "slipway://ns/host-1/claim", Data: []byte("#cloud-config\n")}, newRecord(t))
			if e := operation.AsError(err); e.Reason != operation.ReasonNodeExists || e.Retry != operation.RetryWhenAccepted || e.Tries != c.tries ||
				!strings.Contains(e.Message, c.message) || len(e.Message) > 1000 {
				t.Errorf("%s, retry %v, %d tries: %s", e.Reason, e.Retry, e.Tries, e.Message)
			}
			if (deleted > 0) != c.deletes || strings.Contains(read(t, h, "/etc/default/kubelet"), pinned) {
				t.Errorf("%d deletions", deleted)
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
			if err := h.Executor.Rebooted(t.Context(), "boot-2", newRecord(t)); err != nil || pinned(h) != c.pinned {
				t.Errorf("pinned after the reboot: %t, %v", pinned(h), err)
			}
		})
	}
}
