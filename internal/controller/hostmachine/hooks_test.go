package hostmachine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// TestBeforeHostClaim holds that no host is touched before the hook passed, that
// the machine says who holds it back, and that an extension which is not known
// holds it back as well.
func TestBeforeHostClaim(t *testing.T) {
	w := newWorld(t)
	catalog, err := hosthooks.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(registry.Options{})
	client, err := sdkclient.New(sdkclient.Options{Catalog: catalog, Registry: r})
	if err != nil {
		t.Fatal(err)
	}
	w.Hooks = &hosthooks.Hooks{Client: client}
	agent := w.host("h1")
	key := w.machine("m1")
	untouched := func(reason, message string) {
		t.Helper()
		m, result := w.reconcile(key)
		c := conditions.Get(m, infrav1.ClaimHooksPassedCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, message) {
			t.Errorf("condition %+v, want %s %q", c, reason, message)
		}
		if c := conditions.Get(m, infrav1.HostClaimedCondition); c.Reason != "WaitingForHook" || !strings.Contains(c.Message, "Host h1") {
			t.Errorf("HostClaimed: %+v", c)
		}
		if h := agent.Host(t); h.Spec.Claim != nil || h.Spec.ClaimGeneration != 0 {
			t.Errorf("the host was touched: %+v", h.Spec)
		}
		if result.RequeueAfter == 0 {
			t.Error("nothing would call the hook again")
		}
	}
	untouched(infrav1.HooksFailedReason, "not ready")

	passes := false
	ext := hooktest.Start(t, extension.Options{Catalog: catalog}, func(s *extension.Server) error {
		return extension.Handle(s, host.BeforeHostClaim, "gate", func(context.Context, *v1beta1.BeforeHostClaimRequest) (*v1beta1.BeforeHostClaimResponse, error) {
			if passes {
				return nil, nil
			}
			return nil, extension.RetryAfter(time.Second, "no asset number")
		})
	})
	config := hooktest.Config("ext", ext.URL, ext.CA.PEM)
	r.SetUnresolved(hooktest.Entry(t, config), errors.New("it does not answer"))
	if err := r.WarmUp(); err != nil {
		t.Fatal(err)
	}
	untouched(infrav1.HooksFailedReason, "ExtensionConfig ext are not known: it does not answer")

	if err := r.Set(hooktest.Entry(t, hooktest.Handler(config, host.BeforeHostClaim, "gate", "", 0))); err != nil {
		t.Fatal(err)
	}
	untouched(infrav1.HooksBlockedReason, "handler gate.ext: no asset number")

	passes = true
	m, _ := w.reconcile(key)
	if !conditions.IsTrue(m, infrav1.ClaimHooksPassedCondition) || agent.Host(t).Spec.Claim == nil {
		t.Errorf("after the release: %+v, claim %v", m.Status.Conditions, agent.Host(t).Spec.Claim)
	}
}
