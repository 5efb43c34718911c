package hosthooks_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// newHooks returns Hooks whose registry holds the configs, and is not ready if there
// are none.
func newHooks(t *testing.T, configs ...*runtimev1.ExtensionConfig) (*hosthooks.Hooks, *registry.Registry) {
	t.Helper()
	catalog, err := hosthooks.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(registry.Options{})
	c, err := sdkclient.New(sdkclient.Options{Catalog: catalog, Registry: r, Backoff: sdkclient.Backoff{Initial: time.Minute, Max: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs {
		if err := r.Set(hooktest.Entry(t, config)); err != nil {
			t.Fatal(err)
		}
	}
	if len(configs) > 0 {
		if err := r.WarmUp(); err != nil {
			t.Fatal(err)
		}
	}
	return &hosthooks.Hooks{Client: c}, r
}

func objects() (*infrav1.HostMachine, *infrav1.Host) {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h1", Labels: map[string]string{"rack": "a"}}}
	return &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m1"}}, h
}

// TestBeforeClaim calls two handlers, of which one holds the claim back.
func TestBeforeClaim(t *testing.T) {
	catalog, err := hosthooks.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	var got *v1beta1.BeforeHostClaimRequest
	release := false
	ext := hooktest.Start(t, extension.Options{Catalog: catalog}, func(s *extension.Server) error {
		return errors.Join(
			extension.Handle(s, host.BeforeHostClaim, "gate", func(_ context.Context, q *v1beta1.BeforeHostClaimRequest) (*v1beta1.BeforeHostClaimResponse, error) {
				if got = q; release {
					return nil, nil
				}
				r := &v1beta1.BeforeHostClaimResponse{Reason: "InventoryMissing"}
				r.RetryAfterSeconds, r.Message = 7, "no asset number"
				return r, nil
			}),
			extension.Handle(s, host.BeforeHostClaim, "pass", func(context.Context, *v1beta1.BeforeHostClaimRequest) (*v1beta1.BeforeHostClaimResponse, error) {
				return nil, nil
			}),
		)
	})
	config := hooktest.Config("ext", ext.URL, ext.CA.PEM)
	config = hooktest.Handler(config, host.BeforeHostClaim, "gate", "", 0)
	config = hooktest.Handler(config, host.BeforeHostClaim, "pass", "", 0)
	hooks, _ := newHooks(t, config)
	m, h := objects()
	outcome := hooks.BeforeClaim(t.Context(), m, "c1", h)
	want := hosthooks.Outcome{Handlers: 2, RetryAfter: 7 * time.Second, Reason: infrav1.HooksBlockedReason, Message: "Held back by handler gate.ext: InventoryMissing: no asset number"}
	if outcome != want {
		t.Errorf("got %+v, want %+v", outcome, want)
	}
	if got.ClusterName != "c1" || got.Machine.Name != "m1" || got.Host.Labels["rack"] != "a" {
		t.Errorf("request %+v", got)
	}
	if c := outcome.Condition("X"); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("condition %v", c)
	}
	release = true
	if outcome := hooks.BeforeClaim(t.Context(), m, "c1", h); !outcome.Passed() || outcome.Condition("X").Status != metav1.ConditionTrue {
		t.Errorf("released: %+v", outcome)
	}
}

// TestFailsClosed holds that whatever is not known to be fine holds back.
func TestFailsClosed(t *testing.T) {
	m, h := objects()
	var none *hosthooks.Hooks
	if outcome := none.BeforeClaim(t.Context(), m, "c1", h); !outcome.Passed() || outcome.Condition("X") != nil {
		t.Errorf("without extensions: %+v", outcome)
	}
	cold, _ := newHooks(t)
	if outcome := cold.BeforeClaim(t.Context(), m, "c1", h); outcome.Passed() || outcome.RetryAfter > time.Second {
		t.Errorf("before the warm-up: %+v", outcome)
	}
	cold.MarkReleased(t.Context(), h)
	if h.Annotations[runtimev1alpha1.PendingHooksAnnotation] != "AfterHostRelease" {
		t.Error("before the warm-up: the hook was not noted as due")
	}
	f := hooktest.StartFaults(t, hooktest.Status(http.StatusServiceUnavailable, "x"))
	dead := hooktest.Handler(hooktest.Config("dead", f.URL, f.CA.PEM), host.AfterHostRelease, "wipe", "", 0)
	hooks, r := newHooks(t, dead)
	if outcome := hooks.AfterRelease(t.Context(), h); outcome.Passed() || outcome.Reason != infrav1.HooksFailedReason || !strings.Contains(outcome.Message, "wipe.dead") {
		t.Errorf("dead: %+v", outcome)
	}
	// The client leaves the handler alone; nobody needs to ask before.
	if outcome := hooks.AfterRelease(t.Context(), h); outcome.RetryAfter < 10*time.Second || f.Requests() != 1 {
		t.Errorf("left alone: %+v, %d requests", outcome, f.Requests())
	}
	if outcome := hooks.BeforeClaim(t.Context(), m, "c1", h); !outcome.Passed() {
		t.Errorf("another hook: %+v", outcome)
	}
	r.SetUnresolved(hooktest.Entry(t, hooktest.Config("unknown", f.URL, f.CA.PEM)), errors.New("refused"))
	if outcome := hooks.BeforeClaim(t.Context(), m, "c1", h); outcome.Passed() || !strings.Contains(outcome.Message, "ExtensionConfig unknown") {
		t.Errorf("undiscovered: %+v", outcome)
	}
	r.Remove("unknown")
	r.Remove("dead")
	h.Annotations = nil
	if hooks.MarkReleased(t.Context(), h); len(h.Annotations) != 0 {
		t.Errorf("nobody listens, yet %v", h.Annotations)
	}
}
