package agentrelease

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agentrollout"
)

// SetupWithManager watches AgentReleases, and Hosts for what a rollout depends on. One
// worker has the whole fleet: two would ask more hosts than may be at once.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr ctrl.Manager, options controller.Options) error {
	options.MaxConcurrentReconciles = 1
	err := ctrl.NewControllerManagedBy(mgr).
		Named("agentrelease").
		WithOptions(options).
		// The status is not watched: managers that share one would wake each other for ever.
		For(&infrav1.AgentRelease{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.Host{}, handler.EnqueueRequestsFromMapFunc(r.toRelease), builder.WithPredicates(relevant())).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the AgentRelease controller: %w", err)
	}
	return nil
}

// toRelease maps every Host to the one release that is rolled out.
func (r *Reconciler) toRelease(_ context.Context, o client.Object) []reconcile.Request {
	if !r.serves(o) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: r.Version}}}
}

// relevant passes the changes of a Host that a plan depends on.
func relevant() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*infrav1.Host)
			after, ok2 := e.ObjectNew.(*infrav1.Host)
			return ok1 && ok2 && (agentrollout.HostOf(before) != agentrollout.HostOf(after) || before.Labels[clusterv1.WatchLabel] != after.Labels[clusterv1.WatchLabel])
		},
	}
}
