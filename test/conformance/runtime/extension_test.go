package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// recorder is an extension that writes down how it is called. The first call of
// each blocking hook that is told to asks to be called again.
type recorder struct {
	mu       sync.Mutex
	calls    []string
	blocking map[string]bool
}

// called notes a call and holds the caller back the first time.
func (r *recorder) called(hook string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, hook)
	if r.blocking[hook] {
		r.blocking[hook] = false
		return extension.RetryAfter(time.Second, "waiting for "+hook)
	}
	return nil
}

func (r *recorder) count(hook string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, call := range r.calls {
		if call == hook {
			n++
		}
	}
	return n
}

// order returns the hooks in the order of their first calls.
func (r *recorder) order() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var order []string
	for _, call := range r.calls {
		if !slices.Contains(order, call) {
			order = append(order, call)
		}
	}
	return order
}

// lifecycle handles a hook whose response has nothing but a wish to be called again.
func lifecycle[Q, R any](s *extension.Server, r *recorder, h hook.Hook[Q, R], name string) error {
	return extension.Handle(s, h, name, func(context.Context, *Q) (*R, error) {
		return nil, r.called(h.Definition().Name.Hook)
	}, extension.WithTimeout(5*time.Second))
}

// startRecorder serves a recorder built on the SDK.
func startRecorder(t *testing.T) (*recorder, *hooktest.Extension) {
	t.Helper()
	r := &recorder{blocking: map[string]bool{"BeforeClusterCreate": true, "BeforeClusterUpgrade": true, "AfterControlPlaneUpgrade": true, "BeforeClusterDelete": true}}
	return r, hooktest.Start(t, extension.Options{PathPrefix: "/hooks"}, func(s *extension.Server) error {
		return errors.Join(
			lifecycle(s, r, capi.BeforeClusterCreate, "before-create"),
			lifecycle(s, r, capi.AfterControlPlaneInitialized, "initialized"),
			lifecycle(s, r, capi.BeforeClusterUpgrade, "before-upgrade"),
			lifecycle(s, r, capi.BeforeControlPlaneUpgrade, "before-control-plane"),
			lifecycle(s, r, capi.AfterControlPlaneUpgrade, "after-control-plane"),
			lifecycle(s, r, capi.BeforeWorkersUpgrade, "before-workers"),
			lifecycle(s, r, capi.AfterWorkersUpgrade, "after-workers"),
			lifecycle(s, r, capi.AfterClusterUpgrade, "after-upgrade"),
			lifecycle(s, r, capi.BeforeClusterDelete, "before-delete"),
			extension.Handle(s, capi.DiscoverVariables, "variables", r.discoverVariables),
			extension.Handle(s, capi.GeneratePatches, "patches", r.generatePatches),
			extension.Handle(s, capi.ValidateTopology, "validate", r.validateTopology),
			extension.Handle(s, capi.GenerateUpgradePlan, "plan", r.generateUpgradePlan),
		)
	})
}

func (r *recorder) discoverVariables(context.Context, *hooksv1.DiscoverVariablesRequest) (*hooksv1.DiscoverVariablesResponse, error) {
	return &hooksv1.DiscoverVariablesResponse{Variables: []clusterv1.ClusterClassVariable{{
		Name: "size", Required: ptr.To(true),
		Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "string"}},
	}}}, r.called("DiscoverVariables")
}

// generatePatches writes the value of the variable into the infrastructure cluster.
func (r *recorder) generatePatches(_ context.Context, q *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
	var size json.RawMessage
	for _, variable := range q.Variables {
		if variable.Name == "size" {
			size = variable.Value.Raw
		}
	}
	response := &hooksv1.GeneratePatchesResponse{}
	for _, item := range q.Items {
		if item.HolderReference.FieldPath != "spec.infrastructureRef" {
			continue
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"size": size}}}})
		if err != nil {
			return nil, err
		}
		response.Items = append(response.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: patch})
	}
	return response, r.called("GeneratePatches")
}

// validateTopology refuses one size, which upstream must report as a failure.
func (r *recorder) validateTopology(_ context.Context, q *hooksv1.ValidateTopologyRequest) (*hooksv1.ValidateTopologyResponse, error) {
	if err := r.called("ValidateTopology"); err != nil {
		return nil, err
	}
	for _, variable := range q.Variables {
		if variable.Name == "size" && string(variable.Value.Raw) == `"refused"` {
			return nil, errors.New("this size is refused")
		}
	}
	return nil, nil
}

func (r *recorder) generateUpgradePlan(_ context.Context, q *hooksv1.GenerateUpgradePlanRequest) (*hooksv1.GenerateUpgradePlanResponse, error) {
	plan := &hooksv1.GenerateUpgradePlanResponse{}
	if q.FromControlPlaneKubernetesVersion != q.ToKubernetesVersion {
		plan.ControlPlaneUpgrades = []hooksv1.UpgradeStep{{Version: q.ToKubernetesVersion}}
	}
	if q.FromWorkersKubernetesVersion != q.ToKubernetesVersion {
		plan.WorkersUpgrades = []hooksv1.UpgradeStep{{Version: q.ToKubernetesVersion}}
	}
	return plan, r.called("GenerateUpgradePlan")
}
