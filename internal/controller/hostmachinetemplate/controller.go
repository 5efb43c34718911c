package hostmachinetemplate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/predicates"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/placement"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinetemplates;hosts,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// pollInterval is how long a change of the hosts may go unnoticed: watching them
// would wake every template with every host.
const pollInterval = time.Minute

// Reconciler reconciles HostMachineTemplates.
type Reconciler struct {
	Client client.Client
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string
}

// Reconcile computes the capacity of one HostMachineTemplate.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	template := &infrav1.HostMachineTemplate{}
	if err := r.Client.Get(ctx, req.NamespacedName, template); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := util.GetClusterFromMetadata(ctx, r.Client, template.ObjectMeta)
	if err != nil && !errors.Is(err, util.ErrNoCluster) && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("get the Cluster of HostMachineTemplate %s: %w", template.Name, err)
	}
	if !template.DeletionTimestamp.IsZero() || annotations.HasPaused(template) || (err == nil && annotations.IsPaused(cluster, template)) {
		return ctrl.Result{RequeueAfter: wait.Jitter(pollInterval, 0.2)}, nil
	}
	capacity, info, err := placement.Capacity(ctx, r.Client, template.Namespace, placement.Request{Placement: template.Spec.Template.Spec.Placement})
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{RequeueAfter: wait.Jitter(pollInterval, 0.2)}
	if equality.Semantic.DeepEqual(template.Status.Capacity, capacity) && template.Status.NodeInfo == info {
		return result, nil
	}
	before := template.DeepCopy()
	template.Status.Capacity, template.Status.NodeInfo = capacity, info
	if err := r.Client.Status().Patch(ctx, template, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("report the capacity of HostMachineTemplate %s: %w", template.Name, err)
	}
	return result, nil
}

// SetupWithManager watches HostMachineTemplates.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "hostmachinetemplate")
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hostmachinetemplate").
		WithOptions(options).
		For(&infrav1.HostMachineTemplate{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the HostMachineTemplate controller: %w", err)
	}
	return nil
}
