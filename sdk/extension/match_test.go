package extension_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func newMatchServer(t *testing.T) *extension.Server {
	t.Helper()
	c := hook.NewCatalog()
	if err := capi.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	server, err := extension.New(extension.Options{Catalog: c})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// TestHandlersMatchInTheServer holds that the server calls a handler for the objects that it selects,
// whoever calls the server; others get an empty success.
func TestHandlersMatchInTheServer(t *testing.T) {
	holds := func(context.Context, *hooksv1.BeforeClusterDeleteRequest) (*hooksv1.BeforeClusterDeleteResponse, error) {
		return nil, extension.RetryAfter(1, "held back")
	}
	updates := func(context.Context, *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
		return nil, extension.RetryAfter(1, "held back")
	}
	production := extension.WithObjectSelector(labels.SelectorFromSet(labels.Set{"environment": "production"}))
	team := extension.WithMatch(func(_ context.Context, r runtime.Object) bool {
		request, ok := r.(*hooksv1.BeforeClusterDeleteRequest)
		return ok && request.Cluster.Namespace == "team-a"
	})
	server := newMatchServer(t)
	if err := errors.Join(
		extension.Handle(server, capi.BeforeClusterDelete, "delete", holds, production, team),
		extension.Handle(server, capi.UpdateMachine, "update", updates, production)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		namespace, environment string
		held                   bool
	}{{"team-a", "production", true}, {"team-a", "test", false}, {"team-b", "production", false}, {"team-a", "", false}} {
		request := &hooksv1.BeforeClusterDeleteRequest{}
		request.Cluster.Name, request.Cluster.Namespace = "c", c.namespace
		request.Cluster.Labels = map[string]string{"environment": c.environment}
		response := hooktest.Call(t, server, capi.BeforeClusterDelete, "delete", request)
		if held := response.RetryAfterSeconds > 0; held != c.held || response.Status != hooksv1.ResponseStatusSuccess {
			t.Errorf("%+v: %+v", c, response)
		}
	}
	for environment, held := range map[string]bool{"production": true, "test": false} {
		request := &hooksv1.UpdateMachineRequest{}
		request.Desired.Machine.Name, request.Desired.Machine.Labels = "m", map[string]string{"environment": environment}
		if response := hooktest.Call(t, server, capi.UpdateMachine, "update", request); response.RetryAfterSeconds > 0 != held {
			t.Errorf("%s: %+v", environment, response)
		}
	}
}

// TestSelectorNeedsAnObject holds that a selector is refused for a hook whose requests have no labels.
func TestSelectorNeedsAnObject(t *testing.T) {
	err := extension.Handle(newMatchServer(t), capi.GeneratePatches, "patches", func(context.Context, *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
		return nil, nil
	}, extension.WithObjectSelector(labels.Everything()))
	if err == nil {
		t.Error("a selector of labels for GeneratePatches")
	}
}
