package policy

import (
	"context"
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
)

// SetupWithManager watches LifecyclePolicies, their runs and the Clusters beside them. A
// policy that changes may conflict with each other one of its namespace.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecyclepolicy").
		WithOptions(options).
		Watches(&lifecyclev1.LifecyclePolicy{}, handler.EnqueueRequestsFromMapFunc(r.policiesBeside), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&lifecyclev1.LifecycleRun{}, handler.EnqueueRequestsFromMapFunc(policyOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.policiesBeside),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the LifecyclePolicy controller: %w", err)
	}
	return nil
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	run, ok := o.(*lifecyclev1.LifecycleRun)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.PolicyName}}}
}

func (r *Reconciler) policiesBeside(ctx context.Context, o client.Object) []reconcile.Request {
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := r.Client.List(ctx, policies, client.InNamespace(o.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List LifecyclePolicies")
		return nil
	}
	requests := make([]reconcile.Request, len(policies.Items))
	for i := range policies.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&policies.Items[i])
	}
	return requests
}
