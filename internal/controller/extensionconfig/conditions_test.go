package extensionconfig

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// TestHandlersOfAnotherConfig holds that the condition of an ExtensionConfig says nothing of one
// whose name ends with its own.
func TestHandlersOfAnotherConfig(t *testing.T) {
	handlers := []runtimev1.ExtensionHandler{{Name: "h.prod"}}
	other := []sdkclient.BreakerStatus{{Handler: "h.eu.prod", LastError: errors.New("down")}}
	if c := handlersAvailable("prod", handlers, other); c.Status != metav1.ConditionTrue {
		t.Errorf("the handler of eu.prod is down: %+v", c)
	}
	if c := handlersAvailable("eu.prod", handlers, other); c.Status != metav1.ConditionFalse || c.Message != "down" {
		t.Errorf("its own handler is down: %+v", c)
	}
}

// A handler of a deprecated version shows, with the version to move to.
func TestDeprecatedVersion(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := host.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	name := hooktest.Older(t, catalog, host.BeforeHostClaim, "v1alpha1").Definition().Name
	handlers := []runtimev1.ExtensionHandler{{Name: "h.old", RequestHook: runtimev1.GroupVersionHook{APIVersion: name.GroupVersion().String(), Hook: name.Hook}}}
	if c := hooksUpToDate(catalog, handlers); c.Status != metav1.ConditionFalse || c.Reason != runtimev1alpha1.HooksDeprecatedReason ||
		!strings.HasPrefix(c.Message, "handler h.old") || !strings.Contains(c.Message, "v1beta1") {
		t.Errorf("the version is deprecated: %+v", c)
	}
}
