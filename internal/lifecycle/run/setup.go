package run

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

// SetupWithManager watches LifecycleRuns, their policies and their Clusters. Gates
// look at the Cluster, so each of its changes counts.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	// The status is written here, and must not lead here again.
	written := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	r.flights.ended = make(chan event.GenericEvent)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecyclerun").
		WithOptions(options).
		For(&lifecyclev1.LifecycleRun{}, builder.WithPredicates(written)).
		Watches(&lifecyclev1.LifecyclePolicy{}, handler.EnqueueRequestsFromMapFunc(r.runsOf(ofPolicy)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.runsOf(ofCluster)), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(source.Channel(r.flights.ended, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the LifecycleRun controller: %w", err)
	}
	return nil
}

func ofPolicy(run *lifecyclev1.LifecycleRun) string  { return run.Spec.PolicyName }
func ofCluster(run *lifecyclev1.LifecycleRun) string { return run.Spec.ClusterName }

// runsOf returns the runs of an object that are not settled.
func (r *Reconciler) runsOf(name func(*lifecyclev1.LifecycleRun) string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		runs := &lifecyclev1.LifecycleRunList{}
		// They are only read, here and wherever else the cache is not copied.
		if err := r.Client.List(ctx, runs, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "List LifecycleRuns")
			return nil
		}
		var requests []reconcile.Request
		for i := range runs.Items {
			if run := &runs.Items[i]; name(run) == o.GetName() && !r.settled(ctx, run) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
			}
		}
		return requests
	}
}

func (r *Reconciler) settled(ctx context.Context, run *lifecyclev1.LifecycleRun) bool {
	if !plan.Finished(run) || run.Spec.Cancelled != "" {
		return plan.Finished(run)
	}
	cluster, err := r.clusterOf(ctx, run)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Find the Cluster of a LifecycleRun", "LifecycleRun", klog.KObj(run))
	}
	return cluster == nil || plan.Settled(run, cluster, r.Clock.Now())
}
