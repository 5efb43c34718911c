package hooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// maxRunName leaves room for the names of what the steps of a run create.
const maxRunName = 52

// call is what makes a run: the same call always finds the same run.
type call struct {
	cluster, policy string
	hook            lifecyclev1.HookName
	request         lifecyclev1.RunRequest
}

// is tells whether a run answers the call.
func (c call) is(run *lifecyclev1.LifecycleRun) bool {
	s := &run.Spec
	return s.ClusterName == c.cluster && s.PolicyName == c.policy && s.Hook == c.hook && s.Request.Versions() == c.request.Versions()
}

// runName returns the name of an attempt: a DNS label of at most 52 characters. It
// must not depend on the UID of the Cluster, which clusterctl move changes: the run
// that came along has to be in the way of a second one.
func (c call) runName(attempt int32) string {
	versions := c.request.Versions()
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.cluster, c.policy, string(c.hook)}, versions[:]...), "\x00")))
	suffix := fmt.Sprintf("-%s-%s-%d", kebab(c.hook), hex.EncodeToString(sum[:])[:8], attempt)
	cluster := strings.ReplaceAll(c.cluster, ".", "-")
	if room := max(maxRunName-len(suffix), 1); len(cluster) > room {
		cluster = strings.TrimRight(cluster[:room], "-")
	}
	return cluster + suffix
}

var humps = regexp.MustCompile(`([a-z])([A-Z])`)

// kebab turns BeforeClusterCreate into before-cluster-create.
func kebab(hook lifecyclev1.HookName) string {
	return strings.ToLower(humps.ReplaceAllString(string(hook), "$1-$2"))
}

// Warm has the cache filled with what handlers read before the first call comes.
func Warm(ctx context.Context, c cache.Cache) error {
	for _, object := range []client.Object{&lifecyclev1.LifecyclePolicy{}, &lifecyclev1.LifecycleRun{}} {
		if _, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	return nil
}
