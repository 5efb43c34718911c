package hostcluster

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// SetupWithManager watches HostClusters, their Clusters, the hosts whose failure
// domains and endpoints they tell of, and the end of their machines.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "hostcluster")
	scheme := mgr.GetScheme()
	clusterToHostCluster := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("HostCluster"), mgr.GetClient(), &infrav1.HostCluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hostcluster").
		WithOptions(options).
		For(&infrav1.HostCluster{}, builder.WithPredicates(
			predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter),
			predicates.ResourceIsNotExternallyManaged(scheme, log))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToHostCluster),
			builder.WithPredicates(predicates.ResourceIsChanged(scheme, log))).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(r.toHostClusters), builder.WithPredicates(hostChanged())).
		Watches(&infrav1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(r.toHostClusters), builder.WithPredicates(deleted())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the HostCluster controller: %w", err)
	}
	return nil
}

// hostChanged drops all changes of a host that can neither move it to another
// domain nor say something about who holds the endpoint.
func hostChanged() predicate.Predicate {
	return predicate.Or(
		predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*infrav1.Host)
			after, ok2 := e.ObjectNew.(*infrav1.Host)
			return ok1 && ok2 && (before.Spec.FailureDomain != after.Spec.FailureDomain || report(before) != report(after))
		}},
	)
}

// deleted passes the end of a machine, for which a HostCluster that is being
// deleted waits.
func deleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// toHostClusters maps an object to the HostClusters of its namespace.
func (r *Reconciler) toHostClusters(ctx context.Context, o client.Object) []reconcile.Request {
	hostClusters := &infrav1.HostClusterList{}
	if err := r.Client.List(ctx, hostClusters, client.InNamespace(o.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List HostClusters")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(hostClusters.Items))
	for i := range hostClusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&hostClusters.Items[i])})
	}
	return requests
}
