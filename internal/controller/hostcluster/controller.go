package hostcluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts;hostmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// DefaultPort is the port of the control plane when only its host is given.
const DefaultPort = 6443

// Reconciler reconciles HostClusters.
type Reconciler struct {
	Client client.Client
	// APIReader reads control planes, which the cache does not hold, and the endpoints of other clusters.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string

	// provisioning is held from when the endpoints of other clusters are read until the one of a new cluster is
	// written: of two that come at the same time, the second one sees the first.
	provisioning sync.Mutex
}

// scope holds what the phases saw in one reconcile.
type scope struct {
	hostCluster *infrav1.HostCluster
	cluster     *clusterv1.Cluster
	// hosts of the namespace, as the cache has them: they must not be changed.
	hosts []infrav1.Host
	// requeueAfter is when a phase wants to look again; not at all when zero.
	requeueAfter time.Duration
	// problem is what is wrong with the endpoint; nil when nothing is.
	problem *problem
}

// Reconcile brings one HostCluster to what its spec asks for.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	hostCluster := &infrav1.HostCluster{}
	if found, err := reconciler.Read(ctx, r.Client, req, hostCluster, r.WatchFilter); err != nil || !found {
		return ctrl.Result{}, err
	}
	log := ctrl.LoggerFrom(ctx)
	if annotations.IsExternallyManaged(hostCluster) {
		return ctrl.Result{}, r.giveUp(ctx, hostCluster)
	}
	cluster, err := util.GetOwnerCluster(ctx, r.Client, hostCluster.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get the owner of HostCluster %s: %w", hostCluster.Name, err)
	}
	if cluster == nil && hostCluster.DeletionTimestamp.IsZero() {
		log.V(4).Info("Waiting for Cluster API to set the owner")
		return ctrl.Result{}, nil
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, hostCluster, infrav1.HostClusterFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	// The helper comes first: what is left to write of Paused, it writes.
	helper, err := patch.NewHelper(hostCluster, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, hostCluster); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}
	if !provisioned(hostCluster) {
		r.provisioning.Lock()
		defer r.provisioning.Unlock()
	}
	s := &scope{hostCluster: hostCluster, cluster: cluster}
	known := true
	defer func() {
		// After an error nothing is known that Ready could tell.
		if known {
			setReady(s)
		}
		err := helper.Patch(ctx, hostCluster, patch.WithOwnedConditions{Conditions: []string{
			clusterv1.ReadyCondition, infrav1.EndpointHeldCondition, clusterv1.PausedCondition,
		}})
		result, reterr = reconciler.Ending(ctx, result, reterr, err)
	}()
	if !hostCluster.DeletionTimestamp.IsZero() {
		err = r.delete(ctx, s)
		known = err == nil
		return reconciler.Result(ctx, 0, err)
	}
	err = reconciler.Run(ctx, s, reconciler.Always(r.ensureEndpoint, r.collectFailureDomains, r.refuseHostAddress, r.refuseSharedEndpoint, r.findHolder, r.markProvisioned))
	known = err == nil
	return reconciler.Result(ctx, s.requeueAfter, err)
}

// giveUp removes the finalizer from a HostCluster that another system manages now: nobody here
// would remove it later, and the object could never be deleted. Nothing else is changed.
func (r *Reconciler) giveUp(ctx context.Context, hostCluster *infrav1.HostCluster) error {
	ctrl.LoggerFrom(ctx).V(4).Info("Managed by another system")
	before := hostCluster.DeepCopy()
	if annotations.HasPaused(hostCluster) || !controllerutil.RemoveFinalizer(hostCluster, infrav1.HostClusterFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, hostCluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// delete lets go once the machines are gone: they hold the endpoint, and one that
// is not requested yet is told of it by this object. Core deletes the infrastructure
// of a Cluster after its machines, but anybody may delete it at any time. Nothing
// else is to be undone, so that it matters not whether there is an owner.
func (r *Reconciler) delete(ctx context.Context, s *scope) error {
	name := s.hostCluster.Labels[clusterv1.ClusterNameLabel]
	if s.cluster != nil {
		name = s.cluster.Name
	}
	machines := &infrav1.HostMachineList{}
	if name != "" {
		err := r.Client.List(ctx, machines, client.InNamespace(s.hostCluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
		if err != nil {
			return fmt.Errorf("list the machines of cluster %s: %w", name, err)
		}
	}
	if left := len(machines.Items); left > 0 {
		s.problem = &problem{clusterv1.DeletingReason, fmt.Sprintf("Waiting for %d HostMachines of the cluster to go: delete the Cluster, not its HostCluster", left)}
		return nil
	}
	controllerutil.RemoveFinalizer(s.hostCluster, infrav1.HostClusterFinalizer)
	return nil
}

// markProvisioned tells core to go on. It is never taken back.
func (r *Reconciler) markProvisioned(_ context.Context, s *scope) error {
	if s.problem != nil || provisioned(s.hostCluster) {
		return nil
	}
	s.hostCluster.Status.Initialization.Provisioned = ptr.To(true)
	endpoint := s.hostCluster.Spec.ControlPlaneEndpoint
	r.Recorder.Eventf(s.hostCluster, nil, "Normal", "Provisioned", "Provision", "The control plane will answer at %s", endpoint.String())
	return nil
}
