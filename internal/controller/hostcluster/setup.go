package hostcluster

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/predicates"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// SetupWithManager watches HostClusters, their Clusters, the hosts whose failure
// domains and endpoints they tell of, and the end of their machines and of each other.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "hostcluster")
	scheme := mgr.GetScheme()
	clusterToHostCluster := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("HostCluster"), mgr.GetClient(), &infrav1.HostCluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hostcluster").
		WithOptions(options).
		For(&infrav1.HostCluster{}, builder.WithPredicates(
			predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter),
			predicate.NewPredicateFuncs(managedHere))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToHostCluster),
			builder.WithPredicates(predicates.ResourceIsChanged(scheme, log))).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(r.hostToHostClusters), builder.WithPredicates(hostChanged())).
		Watches(&infrav1.HostCluster{}, handler.EnqueueRequestsFromMapFunc(r.toHostClusters), builder.WithPredicates(deleted())).
		Watches(&infrav1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(r.toHostClusters), builder.WithPredicates(deleted())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the HostCluster controller: %w", err)
	}
	return nil
}

// managedHere says whether a HostCluster is this provider's, or has its finalizer yet.
func managedHere(o client.Object) bool {
	return !annotations.IsExternallyManaged(o) || controllerutil.ContainsFinalizer(o, infrav1.HostClusterFinalizer)
}

// hostChanged drops all changes of a host that can neither move it to another domain, nor
// open or close it to the control plane, nor say something about who holds the endpoint.
func hostChanged() predicate.Predicate {
	return predicate.Or(
		predicate.LabelChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*infrav1.Host)
			after, ok2 := e.ObjectNew.(*infrav1.Host)
			return ok1 && ok2 && (use(before) != use(after) || report(before) != report(after) ||
				!equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity))
		}},
	)
}

// hostUse is all of a Host but its labels and its capacity that failure domains depend on.
type hostUse struct {
	domain, machine, versions string
	architecture              string
	managed                   bool
	heldBack, releasing       bool
	claimable                 standing
}

func use(h *infrav1.Host) hostUse {
	u := hostUse{
		domain: h.Spec.FailureDomain, versions: strings.Join(h.Status.Inventory.KubernetesVersions, " "),
		architecture: h.Status.Inventory.Architecture,
		managed:      host.Managed(h), heldBack: host.HeldBack(h), releasing: host.Releasing(h), claimable: claimable(h),
	}
	if h.Spec.Claim != nil {
		u.machine = h.Spec.Claim.MachineName
	}
	return u
}

// deleted passes the end of an object: of a machine, for which a HostCluster that is being deleted
// waits, and of a HostCluster, whose endpoint another one may have then.
func deleted() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// hostToHostClusters maps a host to those for which it has a failure domain or tells of an
// endpoint.
func (r *Reconciler) hostToHostClusters(ctx context.Context, o client.Object) []reconcile.Request {
	h, ok := o.(*infrav1.Host)
	if !ok {
		return nil
	}
	return reconciler.Requests(ctx, r.Client, &infrav1.HostClusterList{}, func(hc *infrav1.HostCluster) bool {
		return report(h) != candidate{} || host.FailureDomain(h, hc.Spec.FailureDomainLabel) != ""
	}, client.InNamespace(o.GetNamespace()))
}

// toHostClusters maps an object to the HostClusters of its namespace.
func (r *Reconciler) toHostClusters(ctx context.Context, o client.Object) []reconcile.Request {
	return reconciler.Requests[client.Object](ctx, r.Client, &infrav1.HostClusterList{}, nil, client.InNamespace(o.GetNamespace()))
}
