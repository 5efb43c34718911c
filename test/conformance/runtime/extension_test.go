package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// recorder is an extension that writes down how it is called. It asks to be called again
// by each hook that may hold the Cluster back, until that is released.
type recorder struct {
	mu       sync.Mutex
	calls    []string
	released map[string]bool

	// live reads Clusters as the API server has them, once there is one.
	live client.Reader
	// seesPending is true once upstream's cache has a Cluster with the label seenPending.
	seesPending atomic.Bool
	// undue are hooks whose first call slipway-lifecycle would have refused, and why.
	undue []string
}

// judge holds the first call of a lifecycle hook against what slipway-lifecycle takes for
// possible.
func (r *recorder) judge(ctx context.Context, hook string, request any) {
	if r.count(hook) > 0 {
		return
	}
	reason := "the request is unknown"
	if asked, about := requestOf(request); about != nil {
		cluster := &clusterv1.Cluster{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(about), cluster); err != nil {
			reason = err.Error()
		} else {
			reason = plan.NotDue(lifecyclev1.HookName(hook), asked, cluster)
		}
	}
	if reason != "" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.undue = append(r.undue, hook+": "+reason)
	}
}

func requestOf(request any) (lifecyclev1.RunRequest, *clusterv1.Cluster) {
	upgrade := func(from, to string) lifecyclev1.RunRequest {
		return lifecyclev1.RunRequest{FromKubernetesVersion: from, ToKubernetesVersion: to}
	}
	switch q := request.(type) {
	case *hooksv1.BeforeClusterCreateRequest:
		return lifecyclev1.RunRequest{}, &q.Cluster
	case *hooksv1.AfterControlPlaneInitializedRequest:
		return lifecyclev1.RunRequest{}, &q.Cluster
	case *hooksv1.BeforeClusterUpgradeRequest:
		return upgrade(q.FromKubernetesVersion, q.ToKubernetesVersion), &q.Cluster
	case *hooksv1.BeforeControlPlaneUpgradeRequest:
		return upgrade(q.FromKubernetesVersion, q.ToKubernetesVersion), &q.Cluster
	case *hooksv1.AfterControlPlaneUpgradeRequest:
		return lifecyclev1.RunRequest{KubernetesVersion: q.KubernetesVersion}, &q.Cluster
	case *hooksv1.BeforeWorkersUpgradeRequest:
		return upgrade(q.FromKubernetesVersion, q.ToKubernetesVersion), &q.Cluster
	case *hooksv1.AfterWorkersUpgradeRequest:
		return lifecyclev1.RunRequest{KubernetesVersion: q.KubernetesVersion}, &q.Cluster
	case *hooksv1.AfterClusterUpgradeRequest:
		return lifecyclev1.RunRequest{KubernetesVersion: q.KubernetesVersion}, &q.Cluster
	case *hooksv1.BeforeClusterDeleteRequest:
		return lifecyclev1.RunRequest{}, &q.Cluster
	}
	return lifecyclev1.RunRequest{}, nil
}

// called notes a call, and holds the caller back unless the hook was released.
func (r *recorder) called(hook string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, hook)
	if slices.Contains(lifecyclev1.Hooks(), lifecyclev1.HookName(hook)) && lifecyclev1.HookName(hook).Blocking() && !r.released[hook] {
		return extension.RetryAfter(time.Second, "waiting for "+hook)
	}
	return nil
}

// release lets pass from the next call of the hook on.
func (r *recorder) release(hook string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released[hook] = true
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
	return extension.Handle(s, h, name, func(ctx context.Context, request *Q) (*R, error) {
		r.judge(ctx, h.Definition().Name.Hook, request)
		return nil, r.called(h.Definition().Name.Hook)
	}, extension.WithTimeout(5*time.Second))
}

// startRecorded brings up upstream's managers with a recorder that they call, and a class.
func startRecorded(t *testing.T) (*stage, *recorder) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server, skipped by -short")
	}
	recorder, ext := startRecorder(t)
	s := start(t)
	recorder.live = s.Client
	s.discover(ext)
	s.createClass()
	return s, recorder
}

// startRecorder serves a recorder built on the SDK.
func startRecorder(t *testing.T) (*recorder, *hooktest.Extension) {
	t.Helper()
	r := &recorder{released: map[string]bool{}}
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
		switch variable.Name {
		case "size":
			size = variable.Value.Raw
		case hooksv1.BuiltinsName:
			if bytes.Contains(variable.Value.Raw, []byte(seenPending)) {
				r.seesPending.Store(true)
			}
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
