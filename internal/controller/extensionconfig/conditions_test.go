package extensionconfig

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	sdkclient "github.com/slipway-dev/slipway/sdk/client"
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
