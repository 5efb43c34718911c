package agentrelease

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capilabels "sigs.k8s.io/cluster-api/util/labels"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// page is how many hosts are read at once past the cache.
const page = 500

// hosts are those that the reconciler serves, as the cache has them. They are not to be
// changed.
func (r *Reconciler) hosts(ctx context.Context) (map[types.NamespacedName]*infrav1.Host, error) {
	list := &infrav1.HostList{}
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	hosts := make(map[types.NamespacedName]*infrav1.Host, len(list.Items))
	for i := range list.Items {
		if h := &list.Items[i]; r.serves(h) {
			hosts[client.ObjectKeyFromObject(h)] = h
		}
	}
	return hosts, nil
}

func (r *Reconciler) serves(o client.Object) bool {
	return r.WatchFilter == "" || capilabels.HasWatchLabel(o, r.WatchFilter)
}

// behind says whether the cache lacks what an earlier process asked a host for, as it may
// for a moment after a manager took over: more hosts would be asked than may be at once.
func (r *Reconciler) behind(ctx context.Context, cached map[types.NamespacedName]*infrav1.Host) (bool, error) {
	for next := ""; ; {
		list := &infrav1.HostList{}
		if err := r.APIReader.List(ctx, list, client.InNamespace(r.Namespace), client.Limit(page), client.Continue(next)); err != nil {
			return false, fmt.Errorf("list hosts: %w", err)
		}
		for i := range list.Items {
			h := &list.Items[i]
			if h.Spec.Agent == nil || !r.serves(h) {
				continue
			}
			if known := cached[client.ObjectKeyFromObject(h)]; known == nil || !ptr.Equal(known.Spec.Agent, h.Spec.Agent) {
				return true, nil
			}
		}
		if next = list.Continue; next == "" {
			return false, nil
		}
	}
}
