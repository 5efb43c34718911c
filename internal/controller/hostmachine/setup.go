package hostmachine

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
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
	"sigs.k8s.io/cluster-api/util/labels/format"
	"sigs.k8s.io/cluster-api/util/predicates"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// waitingIndex holds the machines that wait for a host. Each report of each free host
// asks for them; a walk over all machines would cost more the larger the fleet is.
const waitingIndex = "waiting"

func indexWaiting(o client.Object) []string {
	if m, ok := o.(*infrav1.HostMachine); ok && m.Spec.ProviderID == "" && m.DeletionTimestamp.IsZero() {
		return []string{"true"}
	}
	return nil
}

// SetupWithManager watches HostMachines and everything a claim depends on.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.HostMachine{}, waitingIndex, indexWaiting); err != nil {
		return fmt.Errorf("index the HostMachines that wait: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.HostMachine{}, providerIDIndex, indexProviderID); err != nil {
		return fmt.Errorf("index the HostMachines by their providerID: %w", err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "hostmachine")
	scheme := mgr.GetScheme()
	clusterToMachines, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &infrav1.HostMachineList{}, scheme)
	if err != nil {
		return fmt.Errorf("map Clusters to HostMachines: %w", err)
	}
	changed := predicates.ResourceIsChanged(scheme, log)
	err = ctrl.NewControllerManagedBy(mgr).
		Named("hostmachine").
		WithOptions(options).
		For(&infrav1.HostMachine{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter))).
		Watches(&clusterv1.Machine{},
			handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("HostMachine"))),
			builder.WithPredicates(changed)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(gone())).
		Watches(&infrav1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(gone())).
		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(r.machinePoolToMachines), builder.WithPredicates(changed)).
		Watches(&clusterv1.MachinePool{}, handler.Funcs{UpdateFunc: r.takenOver}).
		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(gone())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToMachines),
			builder.WithPredicates(changed, predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(scheme, log))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(deletionBegins())).
		Watches(&infrav1.HostMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(deletionBegins())).
		Watches(&infrav1.HostCluster{}, handler.EnqueueRequestsFromMapFunc(r.toWaiting), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(r.hostToMachines), builder.WithPredicates(changed)).
		Watches(&infrav1.KubernetesRelease{}, handler.EnqueueRequestsFromMapFunc(r.releaseToMachines)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the HostMachine controller: %w", err)
	}
	return nil
}

// hostToMachines maps a claimed host to its machine, and a free one to the
// machines that wait for a host.
func (r *Reconciler) hostToMachines(ctx context.Context, o client.Object) []reconcile.Request {
	h, ok := o.(*infrav1.Host)
	if !ok {
		return nil
	}
	if h.Spec.Claim != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}}}
	}
	return r.waiting(ctx, h.Namespace)
}

// toWaiting maps an object to the machines of its namespace that wait for a host: a
// HostMachine, Machine or MachinePool that is gone, whose hosts may be taken now, a
// HostCluster that names other failure domains, or a Cluster or HostMachinePool that is
// being deleted, whose machines claim no host any more.
func (r *Reconciler) toWaiting(ctx context.Context, o client.Object) []reconcile.Request {
	return r.waiting(ctx, o.GetNamespace())
}

// releaseToMachines maps a KubernetesRelease to the machines that wait for a host or for
// their bootstrap, and to those that ask for its version.
func (r *Reconciler) releaseToMachines(ctx context.Context, o client.Object) []reconcile.Request {
	return reconciler.Requests(ctx, r.Client, &infrav1.HostMachineList{}, func(m *infrav1.HostMachine) bool {
		return m.Spec.Version == o.GetName() || !ptr.Deref(m.Status.Initialization.Provisioned, false)
	})
}

// gone passes deletions only.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// deletionBegins passes the update with which an object is deleted.
func deletionBegins() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// waiting are the machines that wait for a host.
func (r *Reconciler) waiting(ctx context.Context, namespace string) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(namespace), client.MatchingFields{waitingIndex: "true"})
}

func (r *Reconciler) machinePoolToMachines(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{waitingIndex: "true"},
		client.MatchingLabels{clusterv1.MachinePoolNameLabel: format.MustFormatValue(o.GetName())})
}

// takenOver wakes what waits for a MachinePool to list a providerID or to forget a Node.
func (r *Reconciler) takenOver(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	before, ok1 := e.ObjectOld.(*clusterv1.MachinePool)
	after, ok2 := e.ObjectNew.(*clusterv1.MachinePool)
	if !ok1 || !ok2 {
		return
	}
	var wake []reconcile.Request
	if len(nodeNames(before).Difference(nodeNames(after))) > 0 {
		wake = r.waiting(ctx, after.Namespace)
	}
	for id := range sets.New(after.Spec.ProviderIDList...).Difference(sets.New(before.Spec.ProviderIDList...)) {
		wake = append(wake, r.requests(ctx, client.InNamespace(after.Namespace), client.MatchingFields{providerIDIndex: id})...)
	}
	for _, request := range wake {
		queue.Add(request)
	}
}

func nodeNames(p *clusterv1.MachinePool) sets.Set[string] {
	names := sets.New[string]()
	for i := range p.Status.NodeRefs {
		names.Insert(p.Status.NodeRefs[i].Name)
	}
	return names
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return reconciler.Requests[client.Object](ctx, r.Client, &infrav1.HostMachineList{}, nil, options...)
}
