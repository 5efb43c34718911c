package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// defaultHistory is how many finished runs are kept.
const defaultHistory = 3

// active counts the runs that have not finished.
func active(runs []lifecyclev1.LifecycleRun) int32 {
	n := int32(0)
	for i := range runs {
		if !plan.Finished(&runs[i]) {
			n++
		}
	}
	return n
}

// prune deletes finished runs beyond the limit. Each is deleted only as it was seen.
func (r *Reconciler) prune(ctx context.Context, s *scope) error {
	for _, old := range superfluous(s.policy, s.runs, s.clusters) {
		err := r.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete LifecycleRun %s: %w", old.Name, err)
		}
		ctrl.LoggerFrom(ctx).V(2).Info("Pruned a LifecycleRun", "LifecycleRun", klog.KObj(old))
	}
	return nil
}

// superfluous returns the finished runs that are not kept. For each cluster and hook
// the newest are kept, and all that the hook may be called for again: those of the
// version that the cluster has or is to get. Without them the steps would be executed a
// second time. Nothing is pruned while the cluster is not there, or paused: clusterctl
// move may be under way.
func superfluous(policy *lifecyclev1.LifecyclePolicy, runs []lifecyclev1.LifecycleRun, clusters []clusterv1.Cluster) []*lifecyclev1.LifecycleRun {
	type group struct {
		cluster types.UID
		hook    lifecyclev1.HookName
	}
	byUID := map[types.UID]*clusterv1.Cluster{}
	for i := range clusters {
		byUID[clusters[i].UID] = &clusters[i]
	}
	finished := map[group][]*lifecyclev1.LifecycleRun{}
	for i := range runs {
		if key := (group{plan.OwnerUID(&runs[i]), runs[i].Spec.Hook}); plan.Finished(&runs[i]) {
			finished[key] = append(finished[key], &runs[i])
		}
	}
	limit := int(ptr.Deref(policy.Spec.RunHistoryLimit, defaultHistory))
	var old []*lifecyclev1.LifecycleRun
	for key, all := range finished {
		cluster := byUID[key.cluster]
		if cluster == nil || ptr.Deref(cluster.Spec.Paused, false) {
			continue
		}
		slices.SortFunc(all, newestFirst)
		newest := map[[3]string]bool{}
		for i, candidate := range all {
			request := &candidate.Spec.Request
			first := !newest[request.Versions()]
			newest[request.Versions()] = true
			if i < limit || first && current(request, cluster) {
				continue
			}
			old = append(old, candidate)
		}
	}
	return old
}

// current says whether a hook may be called again with a request.
func current(request *lifecyclev1.RunRequest, cluster *clusterv1.Cluster) bool {
	wanted := cluster.Spec.Topology.Version
	return request.Versions() == [3]string{} || request.ToKubernetesVersion == wanted || request.KubernetesVersion == wanted
}

// newestFirst orders by what was last done: clusterctl move creates all runs anew.
func newestFirst(a, b *lifecyclev1.LifecycleRun) int {
	return cmp.Or(lastDone(b).Compare(lastDone(a)), cmp.Compare(b.Spec.Attempt, a.Spec.Attempt), cmp.Compare(a.Name, b.Name))
}

func lastDone(r *lifecyclev1.LifecycleRun) time.Time {
	last := time.Time{}
	for _, progress := range r.Spec.Progress {
		for _, t := range []time.Time{progress.StartTime.Time, progress.EndTime.Time} {
			if t.After(last) {
				last = t
			}
		}
	}
	if last.IsZero() {
		return r.CreationTimestamp.Time
	}
	return last
}
