package hostmachinepool

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// SetupWithManager watches HostMachinePools, their MachinePools and their members.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "hostmachinepool")
	scheme := mgr.GetScheme()
	clusterToPools, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &infrav1.HostMachinePoolList{}, scheme)
	if err != nil {
		return fmt.Errorf("map Clusters to HostMachinePools: %w", err)
	}
	changed := predicates.ResourceIsChanged(scheme, log)
	err = ctrl.NewControllerManagedBy(mgr).
		Named("hostmachinepool").
		WithOptions(options).
		For(&infrav1.HostMachinePool{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilter))).
		Watches(&clusterv1.MachinePool{},
			handler.EnqueueRequestsFromMapFunc(util.MachinePoolToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("HostMachinePool"))),
			builder.WithPredicates(changed)).
		Watches(&infrav1.HostMachine{}, handler.EnqueueRequestsFromMapFunc(hostMachineToPool), builder.WithPredicates(changed)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.machineToPool), builder.WithPredicates(changed)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToPools),
			builder.WithPredicates(changed, predicates.ClusterPausedTransitions(scheme, log))).
		Watches(&infrav1.KubernetesRelease{}, handler.EnqueueRequestsFromMapFunc(r.releaseToPools)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the HostMachinePool controller: %w", err)
	}
	return nil
}

// releaseToPools maps a KubernetesRelease to all pools: what hosts offer to their members
// changes with it.
func (r *Reconciler) releaseToPools(ctx context.Context, _ client.Object) []reconcile.Request {
	return reconciler.Requests[client.Object](ctx, r.Client, &infrav1.HostMachinePoolList{}, nil)
}

func hostMachineToPool(_ context.Context, o client.Object) []reconcile.Request {
	if pool := host.PoolOf(o); pool != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: pool.Name}}}
	}
	return nil
}

// machineToPool finds the pool of a Machine through the MachinePool that controls
// it.
func (r *Reconciler) machineToPool(ctx context.Context, o client.Object) []reconcile.Request {
	machine, ok := o.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	ref := machine.Spec.InfrastructureRef
	if ref.Kind != machineKind || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil
	}
	for _, owner := range machine.OwnerReferences {
		if owner.Kind != "MachinePool" {
			continue
		}
		machinePool := &clusterv1.MachinePool{}
		if err := r.Client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: owner.Name}, machinePool); err != nil {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{
			Namespace: machine.Namespace, Name: machinePool.Spec.Template.Spec.InfrastructureRef.Name,
		}}}
	}
	return nil
}
