package hostmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	capilabels "sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	"github.com/slipway-dev/slipway/internal/placement/inputs"
	"github.com/slipway-dev/slipway/internal/seen"
	"github.com/slipway-dev/slipway/internal/throttle"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostclusters;hostmachinepools,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines;machinepools,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// conflictRetry lets the cache catch up with the write that won.
const conflictRetry = 50 * time.Millisecond

// clusterRetry is when to look again for the Cluster of a machine that was moved or
// restored. No event tells of a Cluster that comes unpaused.
const clusterRetry = 5 * time.Second

// Reconciler reconciles HostMachines.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache. Every decision to claim, release or let go
	// of a host rests on it.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Clock judges heartbeats.
	Clock clock.Clock
	// Hooks may hold back a claim. Default: none.
	Hooks *hosthooks.Hooks
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string
	// Settle is how long a machine may be on its way before its status tells how
	// far it is; not at all when zero. What lasts longer, fails or succeeds is
	// written at once: in a large pool most states pass before anybody reads them.
	Settle time.Duration

	reservations reservations
	rankings     rankings
	settling     throttle.Status
	// nodes are what was seen of Nodes that are not ready.
	nodes seen.Values[client.ObjectKey, nodeView]
	// machines are the writes to machines, orders those to hosts.
	machines, orders written
}

// phase is one step on the way to a running machine. It returns false when the
// following ones must wait.
type phase func(context.Context, *scope) (proceed bool, err error)

// Reconcile brings one HostMachine a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	hostMachine := &infrav1.HostMachine{}
	if err := r.Client.Get(ctx, req.NamespacedName, hostMachine); err != nil {
		if apierrors.IsNotFound(err) {
			r.nodes.Forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// What others watch comes here, too, by way of what it refers to.
	if r.WatchFilter != "" && !capilabels.HasWatchLabel(hostMachine, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	if r.machines.stale(hostMachine) {
		return ctrl.Result{}, nil
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, hostMachine, infrav1.HostMachineFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	cluster, err := r.cluster(ctx, hostMachine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if precedesCluster(hostMachine, cluster) {
		return ctrl.Result{RequeueAfter: clusterRetry}, nil
	}
	if isPaused, requeue, err := r.paused(ctx, cluster, hostMachine); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}

	s := newScope(r.Client, hostMachine, cluster)
	s.wrote = r.machines.note
	defer func() { result, reterr = r.report(ctx, s, result, reterr) }()

	if err := r.run(ctx, s); err != nil {
		s.partial = true
		if apierrors.IsConflict(err) {
			// Somebody else wrote first, which is how races for a host end.
			ctrl.LoggerFrom(ctx).V(4).Info("Beginning anew after a conflict", "conflict", err.Error())
			return ctrl.Result{RequeueAfter: conflictRetry}, nil
		}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, nil
}

// precedesCluster says that a machine was moved or restored and its Cluster is yet to be
// seen: whether it is paused is not known.
func precedesCluster(m *infrav1.HostMachine, cluster *clusterv1.Cluster) bool {
	return cluster == nil && m.Spec.ClaimID != "" && m.DeletionTimestamp.IsZero()
}

// report writes what the phases saw, unless it may wait still.
func (r *Reconciler) report(ctx context.Context, s *scope, result ctrl.Result, failed error) (ctrl.Result, error) {
	if s.movedAway {
		return result, failed
	}
	if !s.partial {
		setConditions(s.hostMachine, s)
	}
	if wait := r.settling.Wait(client.ObjectKeyFromObject(s.hostMachine), inTransition(s), r.Settle, r.Clock.Now()); wait > 0 && failed == nil {
		if result.RequeueAfter == 0 || result.RequeueAfter > wait {
			result.RequeueAfter = wait
		}
		return result, nil
	}
	return result, kerrors.NewAggregate([]error{failed, s.patch(ctx)})
}

func (r *Reconciler) run(ctx context.Context, s *scope) error {
	phases := []phase{
		r.findOwner,
		r.recordIntent,
		r.claimHost,
		r.releaseSurplus,
		r.observeHost,
		r.awaitTakeover,
		r.syncOrder,
		r.observeNode,
	}
	if !s.hostMachine.DeletionTimestamp.IsZero() {
		phases = []phase{r.confirmDeletion, r.orderReset, r.awaitRelease}
	}
	for _, p := range phases {
		if proceed, err := p(ctx, s); err != nil || !proceed {
			return err
		}
	}
	return nil
}

// paused is upstream's check, but for a machine that is new and not paused: that is
// written with the rest of its status.
func (r *Reconciler) paused(ctx context.Context, cluster *clusterv1.Cluster, m *infrav1.HostMachine) (isPaused, requeue bool, err error) {
	if conditions.Has(m, clusterv1.PausedCondition) || annotations.HasPaused(m) || (cluster != nil && ptr.Deref(cluster.Spec.Paused, false)) {
		return paused.EnsurePausedCondition(ctx, r.Client, cluster, m)
	}
	return false, false, nil
}

// cluster returns the Cluster of a HostMachine, or nil while there is none.
func (r *Reconciler) cluster(ctx context.Context, m *infrav1.HostMachine) (*clusterv1.Cluster, error) {
	name := m.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil, nil
	}
	cluster, err := util.GetClusterByName(ctx, r.Client, m.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", name, err)
	}
	return cluster, nil
}

// inTransition says that the machine has a host which has yet to finish its bootstrap,
// and that nothing is wrong.
func inTransition(s *scope) bool {
	if s.host == nil || !s.hostMachine.DeletionTimestamp.IsZero() || ptr.Deref(s.hostMachine.Status.Initialization.Provisioned, false) {
		return false
	}
	phase := host.StateOf(s.host).Phase
	return phase == infrav1.HostPhaseClaimed || phase == infrav1.HostPhaseBootstrapping
}

// scope holds what the phases saw in one reconcile.
type scope struct {
	hostMachine *infrav1.HostMachine
	cluster     *clusterv1.Cluster
	owner       *inputs.Owner
	// host is the claimed host; nil until there is one.
	host *infrav1.Host
	// claimed is the host that this very reconcile claimed or found claimed, newer
	// than what the cache may show.
	claimed *infrav1.Host
	// waiting says why there is no claim yet; why the claim is lost, when lost.
	waiting *waiting
	// takeover says why a claimed host has no order yet; empty when nothing holds it back.
	takeover string
	// ailment says what is wrong with a machine that was provisioned; nil when nothing is.
	ailment *waiting
	// partial is true after an error: what was not seen must not make a condition fall.
	partial bool
	// released is true when a deleted machine has let go of its host.
	released bool
	// withdrawn is true when the claim on a node that was not adopted was ended.
	withdrawn bool
	// movedAway is true when a deletion means nothing for the host; nothing is written.
	movedAway bool
	// newIntent is true when the claimID was made in this very reconcile, so
	// that no host can carry it yet.
	newIntent    bool
	requeueAfter time.Duration

	client client.Client
	// wrote is told of each write to the machine.
	wrote func(before, after client.Object)
	// before is the machine as it was read, or last written.
	before *infrav1.HostMachine
}

// version is what the host must run: the machine's own, else its owner's.
func (s *scope) version() string {
	if s.hostMachine.Spec.Version != "" || s.owner == nil {
		return s.hostMachine.Spec.Version
	}
	return s.owner.Version
}

// adopts says whether the machine asks for a host that is a node already.
func (s *scope) adopts() bool { return s.hostMachine.Spec.Adopt.HostName != "" }

// waiting is a reason and message for the condition HostClaimed.
type waiting struct{ reason, message string }

func newScope(c client.Client, m *infrav1.HostMachine, cluster *clusterv1.Cluster) *scope {
	return &scope{hostMachine: m, cluster: cluster, client: c, before: m.DeepCopy()}
}

// patch writes the status, and the finalizer if it was taken off, where they
// changed. Nobody else writes this status, so it is one patch, conditions and all.
func (s *scope) patch(ctx context.Context) error {
	before := s.before
	if !equality.Semantic.DeepEqual(before.Status, s.hostMachine.Status) {
		changed := before.DeepCopy()
		changed.Status = s.hostMachine.Status
		if err := s.client.Status().Patch(ctx, changed, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("patch the status: %w", err)
		}
		s.wrote(before, changed)
		before = changed
	}
	if controllerutil.ContainsFinalizer(s.hostMachine, infrav1.HostMachineFinalizer) {
		return nil
	}
	changed := before.DeepCopy()
	controllerutil.RemoveFinalizer(changed, infrav1.HostMachineFinalizer)
	err := s.client.Patch(ctx, changed, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the finalizer off: %w", err)
	}
	return nil
}

// write changes the spec or the metadata at once, and only if nobody changed the object
// in the meantime: the claim depends on the order of its writes.
func (s *scope) write(ctx context.Context, mutate func(*infrav1.HostMachine)) error {
	changed := s.hostMachine.DeepCopy()
	mutate(changed)
	before := client.MergeFromWithOptions(s.hostMachine.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := s.client.Patch(ctx, changed, before); err != nil {
		return err
	}
	s.wrote(s.hostMachine, changed)
	s.hostMachine.Spec, s.hostMachine.ObjectMeta = changed.Spec, changed.ObjectMeta
	s.before = changed
	return nil
}
