package hooks

import (
	"context"
	"errors"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// AddTo registers a handler for each lifecycle hook, named as the hook in kebab
// case.
func (h *Handler) AddTo(s *extension.Server) error {
	return errors.Join(
		add(h, s, capi.BeforeClusterCreate, lifecyclev1.BeforeClusterCreate, func(q *hooksv1.BeforeClusterCreateRequest) event {
			return event{cluster: &q.Cluster}
		}),
		add(h, s, capi.AfterControlPlaneInitialized, lifecyclev1.AfterControlPlaneInitialized, func(q *hooksv1.AfterControlPlaneInitializedRequest) event {
			return event{cluster: &q.Cluster}
		}),
		add(h, s, capi.BeforeClusterUpgrade, lifecyclev1.BeforeClusterUpgrade, func(q *hooksv1.BeforeClusterUpgradeRequest) event {
			return event{cluster: &q.Cluster, request: upgrade(q.FromKubernetesVersion, q.ToKubernetesVersion, q.ControlPlaneUpgrades, q.WorkersUpgrades)}
		}),
		add(h, s, capi.BeforeControlPlaneUpgrade, lifecyclev1.BeforeControlPlaneUpgrade, func(q *hooksv1.BeforeControlPlaneUpgradeRequest) event {
			return event{cluster: &q.Cluster, request: upgrade(q.FromKubernetesVersion, q.ToKubernetesVersion, q.ControlPlaneUpgrades, q.WorkersUpgrades)}
		}),
		add(h, s, capi.AfterControlPlaneUpgrade, lifecyclev1.AfterControlPlaneUpgrade, func(q *hooksv1.AfterControlPlaneUpgradeRequest) event {
			return event{cluster: &q.Cluster, request: upgraded(q.KubernetesVersion, q.ControlPlaneUpgrades, q.WorkersUpgrades)}
		}),
		add(h, s, capi.BeforeWorkersUpgrade, lifecyclev1.BeforeWorkersUpgrade, func(q *hooksv1.BeforeWorkersUpgradeRequest) event {
			return event{cluster: &q.Cluster, request: upgrade(q.FromKubernetesVersion, q.ToKubernetesVersion, q.ControlPlaneUpgrades, q.WorkersUpgrades)}
		}),
		add(h, s, capi.AfterWorkersUpgrade, lifecyclev1.AfterWorkersUpgrade, func(q *hooksv1.AfterWorkersUpgradeRequest) event {
			return event{cluster: &q.Cluster, request: upgraded(q.KubernetesVersion, q.ControlPlaneUpgrades, q.WorkersUpgrades)}
		}),
		add(h, s, capi.AfterClusterUpgrade, lifecyclev1.AfterClusterUpgrade, func(q *hooksv1.AfterClusterUpgradeRequest) event {
			return event{cluster: &q.Cluster, request: lifecyclev1.RunRequest{KubernetesVersion: q.KubernetesVersion}}
		}),
		add(h, s, capi.BeforeClusterDelete, lifecyclev1.BeforeClusterDelete, func(q *hooksv1.BeforeClusterDeleteRequest) event {
			return event{cluster: &q.Cluster}
		}),
	)
}

func add[Q, R any](h *Handler, s *extension.Server, of hook.Hook[Q, R], name lifecyclev1.HookName, read func(*Q) event) error {
	return extension.Handle(s, of, kebab(name), func(ctx context.Context, request *Q) (*R, error) {
		e := read(request)
		e.hook = name
		return nil, h.answer(ctx, e)
	})
}

func upgrade(from, to string, controlPlane, workers []hooksv1.UpgradeStepInfo) lifecyclev1.RunRequest {
	return lifecyclev1.RunRequest{
		FromKubernetesVersion: from, ToKubernetesVersion: to,
		ControlPlaneUpgrades: steps(controlPlane), WorkersUpgrades: steps(workers),
	}
}

func upgraded(version string, controlPlane, workers []hooksv1.UpgradeStepInfo) lifecyclev1.RunRequest {
	return lifecyclev1.RunRequest{KubernetesVersion: version, ControlPlaneUpgrades: steps(controlPlane), WorkersUpgrades: steps(workers)}
}

func steps(infos []hooksv1.UpgradeStepInfo) []lifecyclev1.UpgradeStep {
	var steps []lifecyclev1.UpgradeStep
	for _, info := range infos {
		steps = append(steps, lifecyclev1.UpgradeStep{Version: info.Version})
	}
	return steps
}
