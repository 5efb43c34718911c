package hooks

import (
	"context"
	"errors"
	"fmt"

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
)

// AskReconciler asks in the place of Cluster API for Clusters without a topology, which no
// hook is called for: it starts the runs of policies of enforcement All when a Cluster
// waits to be made, or to be deleted. Whether it may go on then, admission says.
type AskReconciler struct {
	Handler *Handler
}

// Reconcile starts the runs that a Cluster waits for.
func (r *AskReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Handler.Client.Get(ctx, req.NamespacedName, cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	var errs []error
	for _, hook := range lifecyclev1.Hooks() {
		if plan.Asks(hook, cluster) {
			errs = append(errs, r.Handler.begin(ctx, event{hook: hook, cluster: cluster}))
		}
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// begin starts a run for each policy that holds a Cluster without a topology back.
func (h *Handler) begin(ctx context.Context, e event) error {
	policies, err := h.policies(ctx, h.Client, e)
	if err != nil {
		return err
	}
	var errs []error
	for _, policy := range policies {
		if !plan.Enforces(policy, e.hook, e.cluster) {
			continue
		}
		if _, err := h.run(ctx, e, policy); err != nil {
			errs = append(errs, fmt.Errorf("LifecyclePolicy %s: %w", policy.Name, err))
		}
	}
	return errors.Join(errs...)
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

// clustersBeside are the Clusters that a policy may hold back.
func (r *AskReconciler) clustersBeside(ctx context.Context, o client.Object) []reconcile.Request {
	clusters := &clusterv1.ClusterList{}
	if err := r.Handler.Client.List(ctx, clusters, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List Clusters")
		return nil
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		if !clusters.Items[i].Spec.Topology.IsDefined() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
		}
	}
	return requests
}
