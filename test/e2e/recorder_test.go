package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// recorder is a second extension beside slipway-lifecycle. It lets everything pass
// and keeps what it was asked.
type recorder struct {
	mu    sync.Mutex
	calls []recorded
}

// recorded is one call: the hook, the versions of its request, and the Cluster.
type recorded struct {
	hook, versions string
	cluster        clusterv1.Cluster
}

func record[Q, R any](r *recorder, s *extension.Server, h hook.Hook[Q, R], name string, read func(*Q) recorded) error {
	return extension.Handle(s, h, name, func(_ context.Context, request *Q) (*R, error) {
		call := read(request)
		call.hook = h.Definition().Name.Hook
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, call)
		return nil, nil
	})
}

func (r *recorder) register(s *extension.Server) error {
	return errors.Join(
		record(r, s, capi.BeforeClusterCreate, "create", func(q *hooksv1.BeforeClusterCreateRequest) recorded { return recorded{cluster: q.Cluster} }),
		record(r, s, capi.AfterControlPlaneInitialized, "initialized", func(q *hooksv1.AfterControlPlaneInitializedRequest) recorded {
			return recorded{cluster: q.Cluster}
		}),
		record(r, s, capi.BeforeClusterUpgrade, "before-upgrade", func(q *hooksv1.BeforeClusterUpgradeRequest) recorded {
			return recorded{cluster: q.Cluster, versions: q.FromKubernetesVersion + " " + q.ToKubernetesVersion}
		}),
		record(r, s, capi.BeforeControlPlaneUpgrade, "before-cp", func(q *hooksv1.BeforeControlPlaneUpgradeRequest) recorded {
			return recorded{cluster: q.Cluster, versions: q.FromKubernetesVersion + " " + q.ToKubernetesVersion}
		}),
		record(r, s, capi.AfterControlPlaneUpgrade, "after-cp", func(q *hooksv1.AfterControlPlaneUpgradeRequest) recorded {
			return recorded{cluster: q.Cluster, versions: q.KubernetesVersion}
		}),
		record(r, s, capi.BeforeWorkersUpgrade, "before-workers", func(q *hooksv1.BeforeWorkersUpgradeRequest) recorded {
			return recorded{cluster: q.Cluster, versions: q.FromKubernetesVersion + " " + q.ToKubernetesVersion}
		}),
		record(r, s, capi.AfterWorkersUpgrade, "after-workers", func(q *hooksv1.AfterWorkersUpgradeRequest) recorded {
			return recorded{cluster: q.Cluster, versions: q.KubernetesVersion}
		}),
		record(r, s, capi.AfterClusterUpgrade, "after-upgrade", func(q *hooksv1.AfterClusterUpgradeRequest) recorded {
			return recorded{cluster: q.Cluster, versions: q.KubernetesVersion}
		}),
		record(r, s, capi.BeforeClusterDelete, "delete", func(q *hooksv1.BeforeClusterDeleteRequest) recorded { return recorded{cluster: q.Cluster} }),
	)
}

// order returns the calls with their versions; calls of the same hook in a row count
// once.
func (r *recorder) order() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var order []string
	for _, c := range r.calls {
		order = append(order, strings.TrimSpace(c.hook+" "+c.versions))
	}
	return slices.Compact(order)
}

// guideOrder is the order of calls in the life of a Cluster that is upgraded once, with
// what the requests say besides the Cluster (seed lifecycle-hooks-guide).
var guideOrder = []string{
	"BeforeClusterCreate",
	"AfterControlPlaneInitialized",
	"BeforeClusterUpgrade " + older + " " + current,
	"BeforeControlPlaneUpgrade " + older + " " + current,
	"AfterControlPlaneUpgrade " + current,
	"BeforeWorkersUpgrade " + older + " " + current,
	"AfterWorkersUpgrade " + current,
	"AfterClusterUpgrade " + current,
	"BeforeClusterDelete",
}
