package host_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	hosthook "github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// TestAfterHostRelease holds that a clean host is free of its claim at once, so that
// its machine can go, but is not available before the hook passed; also when the
// manager crashed in between, and also when an operator cleared a quarantine.
func TestAfterHostRelease(t *testing.T) {
	w := newWorld(t)
	catalog, err := hosthooks.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	passes := false
	ext := hooktest.Start(t, extension.Options{Catalog: catalog}, func(s *extension.Server) error {
		return extension.Handle(s, hosthook.AfterHostRelease, "wipe", func(context.Context, *v1beta1.AfterHostReleaseRequest) (*v1beta1.AfterHostReleaseResponse, error) {
			if passes {
				return nil, nil
			}
			return nil, extension.RetryAfter(3*time.Second, "wiping the disks")
		})
	})
	w.Hooks = newHooks(t, hooktest.Handler(hooktest.Config("ext", ext.URL, ext.CA.PEM), hosthook.AfterHostRelease, "wipe", "", 0))

	agent := w.host("h1")
	w.claim(agent, infrav1.HostDesiredReset)
	agent.Obey(t, w.clock.Now())
	h, result := w.reconcile(agent)
	held := func(h *infrav1.Host) {
		t.Helper()
		c := conditions.Get(h, infrav1.ReleaseHooksPassedCondition)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "handler wipe.ext: wiping the disks") {
			t.Errorf("condition %+v", c)
		}
		if h.Spec.Claim != nil || h.Annotations[runtimev1alpha1.PendingHooksAnnotation] == "" ||
			conditions.IsTrue(h, infrav1.AvailableCondition) || h.Status.Phase == infrav1.HostPhaseAvailable {
			t.Errorf("held back: %+v %+v", h.Annotations, h.Status)
		}
	}
	held(h)
	if result.RequeueAfter != 3*time.Second {
		t.Errorf("called again after %s", result.RequeueAfter)
	}

	// A manager that starts anew, and does not know the extensions yet.
	hooks := w.Hooks
	w.Hooks = newHooks(t, nil)
	if h, _ = w.reconcile(agent); conditions.IsTrue(h, infrav1.AvailableCondition) {
		t.Error("available although nobody knows whether the hook passed")
	}
	w.Hooks = hooks
	h, _ = w.reconcile(agent)
	held(h)

	passes = true
	h, _ = w.reconcile(agent)
	if !conditions.IsTrue(h, infrav1.AvailableCondition) || conditions.Has(h, infrav1.ReleaseHooksPassedCondition) || len(h.Annotations) != 0 {
		t.Errorf("after the hook passed: %v %+v", h.Annotations, h.Status.Conditions)
	}
}

// newHooks returns Hooks that know the handlers of config, or none yet if it is nil.
func newHooks(t *testing.T, config *runtimev1.ExtensionConfig) *hosthooks.Hooks {
	t.Helper()
	catalog, err := hosthooks.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(registry.Options{})
	client, err := sdkclient.New(sdkclient.Options{Catalog: catalog, Registry: r})
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		if err := r.WarmUp(hooktest.Entry(t, config)); err != nil {
			t.Fatal(err)
		}
	}
	return &hosthooks.Hooks{Client: client}
}
