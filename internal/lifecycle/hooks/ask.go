package hooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// AskReconciler stands in for Cluster API at Clusters without a topology, which no
// hook is called for: it starts the runs of policies of enforcement All when a Cluster
// waits to be made, or to be deleted, in namespaces in which admission asks about it.
// Whether it may go on then, admission says.
type AskReconciler struct {
	Handler *Handler
}

// retryLabel is when the label of a namespace is looked for again, which nobody watches.
const retryLabel = 30 * time.Second

// Reconcile starts the runs that a Cluster waits for.
func (r *AskReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Handler.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// clusterctl move brings a Cluster paused, and its runs after it: one made meanwhile
	// would be in their way. To unpause it is a change that brings it here again.
	if ptr.Deref(cluster.Spec.Paused, false) && !plan.Waits(cluster) {
		return ctrl.Result{}, nil
	}
	asked, err := r.asked(ctx, cluster)
	if len(asked) == 0 {
		return ctrl.Result{}, err
	}
	// Where the API server does not ask about Clusters, nobody has looked at who asks for
	// the steps, and nothing would wait for them.
	enabled, readErr := rights.Enforced(ctx, r.Handler.APIReader, cluster.Namespace)
	errs := []error{err, readErr}
	if !enabled {
		if err := errors.Join(errs...); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: retryLabel}, nil
	}
	for _, a := range asked {
		if _, err := r.Handler.run(ctx, a.event, a.policy); err != nil {
			errs = append(errs, fmt.Errorf("LifecyclePolicy %s: %w", a.policy.Name, err))
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// asking is what a Cluster waits for of one policy.
type asking struct {
	event  event
	policy *lifecyclev1.LifecyclePolicy
}

// asked are the policies that block a Cluster without a topology at its creation or deletion.
// Those of one hook are found beside an error about another.
func (r *AskReconciler) asked(ctx context.Context, cluster *clusterv1.Cluster) ([]asking, error) {
	var all []asking
	var errs []error
	for _, hook := range lifecyclev1.Hooks() {
		if !plan.Asks(hook, cluster) {
			continue
		}
		e := event{hook: hook, cluster: cluster}
		policies, failed := r.Handler.policies(ctx, r.Handler.Client, e)
		errs = append(errs, failed...)
		for _, policy := range policies {
			if plan.Enforces(policy, hook, cluster) {
				all = append(all, asking{e, policy})
			}
		}
	}
	return all, errors.Join(errs...)
}

// SetupWithManager watches Clusters and policies. A Cluster asks by its spec or by an
// annotation.
func (r *AskReconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecycleask").
		WithOptions(options).
		For(&clusterv1.Cluster{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&lifecyclev1.LifecyclePolicy{}, handler.EnqueueRequestsFromMapFunc(r.clustersBeside), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&lifecyclev1.LifecycleRun{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &clusterv1.Cluster{}),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller that asks for Clusters without a topology: %w", err)
	}
	return nil
}

// clustersBeside are the Clusters that a policy may block.
func (r *AskReconciler) clustersBeside(ctx context.Context, o client.Object) []reconcile.Request {
	return reconciler.Requests(ctx, r.Handler.Client, &clusterv1.ClusterList{}, func(cluster *clusterv1.Cluster) bool {
		return !cluster.Spec.Topology.IsDefined()
	}, client.InNamespace(o.GetNamespace()))
}
