package hostmachinepool

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// FieldOwner owns what this controller applies to Machines.
const FieldOwner = "slipway-hostmachinepool-controller"

// machineKind is the kind behind the pool's Machines.
const machineKind = "HostMachine"

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinepools/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinepools/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts;hostclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools,verbs=get;list;watch;patch
// Rights on Secrets are not generated: config/rbac/secrets_role.yaml, which is bound by namespace.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles HostMachinePools.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache. No machine is made or deleted, and no
	// providerID is dropped, on the word of the cache.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Clock times rollouts and remediation, and judges heartbeats.
	Clock clock.Clock
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string

	memory memory
}

// pollInterval is how long a change of the bootstrap data or of the hosts may go
// unnoticed. Neither is watched: the first would take the right to list every Secret,
// the second would wake every pool with every host.
const pollInterval = time.Minute

// Reconcile brings one HostMachinePool a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	pool := &infrav1.HostMachinePool{}
	if found, err := reconciler.Read(ctx, r.Client, req, pool, r.WatchFilter); err != nil {
		return ctrl.Result{}, err
	} else if !found {
		forgetMetrics(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	machinePool, err := util.GetOwnerMachinePool(ctx, r.Client, pool.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get the owner of HostMachinePool %s: %w", pool.Name, err)
	}
	if machinePool == nil && pool.DeletionTimestamp.IsZero() {
		ctrl.LoggerFrom(ctx).V(4).Info("Waiting for Cluster API to set the owner")
		return ctrl.Result{}, nil
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, pool, infrav1.HostMachinePoolFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	cluster, err := reconciler.Cluster(ctx, r.Client, pool.Namespace, pool.Labels[clusterv1.ClusterNameLabel])
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait, moving := onTheMove(pool, cluster); moving {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	// The helper comes first: what is left to write of Paused, it writes.
	helper, err := patch.NewHelper(pool, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, pool); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	s := newScope(pool, machinePool, cluster)
	s.helper = helper
	defer func() {
		// Without a plan nothing is known that wasn't known before.
		if s.planned {
			setConditions(s, s.partial)
			r.reportRollout(s)
		}
		err := s.helper.Patch(ctx, pool, patch.WithOwnedConditions{Conditions: ownedConditions})
		result, reterr = reconciler.Ending(ctx, result, reterr, err)
	}()
	err = reconciler.Run(ctx, s, r.phases(s))
	s.partial = err != nil
	return reconciler.Result(ctx, s.requeueAfter, err)
}

// onTheMove says that a pool is left alone, and until when: clusterctl deletes it since it
// stands elsewhere now; or it was moved or restored here and its Cluster is yet to be
// seen, so that members that come after it must not be taken for missing.
func onTheMove(pool *infrav1.HostMachinePool, cluster *clusterv1.Cluster) (wait time.Duration, moving bool) {
	if host.MovedAway(pool) {
		return 0, true
	}
	if cluster == nil && pool.DeletionTimestamp.IsZero() && len(pool.Spec.ProviderIDList) > 0 {
		return reconciler.ClusterRetry, true
	}
	return 0, false
}

func (r *Reconciler) phases(s *scope) []reconciler.Phase[*scope] {
	if s.deleting() {
		return reconciler.Always(r.readMembers, r.carryOut, r.configureMachines, r.publish, r.finish)
	}
	return reconciler.Always(
		r.readMembers, r.readRevision, r.readHosts, r.alignMembers, r.remediate, r.carryOut,
		r.configureMachines, r.reportReplicas, r.recordProgress, r.reportCapacity, r.publish,
	)
}
