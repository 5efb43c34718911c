package hostmachine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/paused"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	"github.com/slipway-dev/slipway/internal/placement"
	"github.com/slipway-dev/slipway/internal/reconciler"
	"github.com/slipway-dev/slipway/internal/throttle"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostclusters;hostmachinepools,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=kubernetesreleases,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines;machinepools,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinedeployments;machinesets,verbs=get
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=*,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

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
	// Tracer tells how a machine came to its Node. Default: no traces.
	Tracer *tracing.Tracer
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string
	// Version of the manager.
	Version string
	// StatusDelay is how long a machine may be on its way before its status tells how
	// far it is; not at all when zero. What lasts longer, fails or succeeds is
	// written at once: in a large pool most states pass before anybody reads them.
	StatusDelay time.Duration

	reservations reservations
	rankings     rankings
	// drains is held while a host of a control plane is asked to drain and reboot.
	drains sync.Mutex
	// spares is held while a worker of a Cluster takes a host that its control plane does not need.
	spares   sync.Mutex
	statuses throttle.Status
	// nodes are what was seen of Nodes that are not ready.
	nodes reconciler.Observed[client.ObjectKey, nodeView]
	// machines are the writes to machines, hosts those to hosts.
	machines, hosts reconciler.Written[struct{}]
	unfinished      unfinished
}

// Reconcile brings one HostMachine a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (result ctrl.Result, reterr error) {
	hostMachine := &infrav1.HostMachine{}
	if found, err := reconciler.Read(ctx, r.Client, req, hostMachine, r.WatchFilter); err != nil {
		return ctrl.Result{}, err
	} else if !found {
		r.nodes.Forget(req.NamespacedName)
		r.machines.Forget(req.NamespacedName)
		r.statuses.Forget(req.NamespacedName)
		r.unfinished.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if _, stale := r.machines.Over(hostMachine); stale {
		return ctrl.Result{}, nil
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, hostMachine, infrav1.HostMachineFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	cluster, err := reconciler.Cluster(ctx, r.Client, hostMachine.Namespace, hostMachine.Labels[clusterv1.ClusterNameLabel])
	if err != nil {
		return ctrl.Result{}, err
	}
	if precedesCluster(hostMachine, cluster) {
		return ctrl.Result{RequeueAfter: reconciler.ClusterRetry}, nil
	}
	if isPaused, requeue, err := r.paused(ctx, cluster, hostMachine); err != nil || isPaused || requeue {
		return ctrl.Result{}, err
	}

	s := newScope(r.Client, hostMachine, cluster)
	s.wrote = func(before, after client.Object) { r.machines.Note(before, after, struct{}{}) }
	defer func() { result, reterr = r.report(ctx, s, result, reterr) }()

	// Races for a host end with a conflict.
	err = reconciler.Run(ctx, s, r.phases(s))
	s.partial = err != nil
	if err == nil {
		err = r.spareWaiting(ctx, s)
	}
	return reconciler.Result(ctx, s.requeueAfter, err)
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
	if r.Tracer != nil {
		r.unfinished.note(s.hostMachine, r.Clock.Now())
	}
	if !s.partial {
		setConditions(s.hostMachine, s)
	}
	if wait := r.statuses.Wait(client.ObjectKeyFromObject(s.hostMachine), inTransition(s), r.StatusDelay, r.Clock.Now()); wait > 0 && failed == nil {
		if result.RequeueAfter == 0 || result.RequeueAfter > wait {
			result.RequeueAfter = wait
		}
		return result, nil
	}
	return reconciler.Ending(ctx, result, failed, s.patch(ctx))
}

// phases are the way to a running machine, or back to a free host.
func (r *Reconciler) phases(s *scope) []reconciler.Phase[*scope] {
	if !s.hostMachine.DeletionTimestamp.IsZero() {
		return []reconciler.Phase[*scope]{r.confirmDeletion, r.requestReset, r.awaitRelease}
	}
	return []reconciler.Phase[*scope]{
		r.findOwner,
		r.recordIntent,
		r.claimHost,
		r.releaseSurplus,
		r.observeHost,
		r.holdLeaving,
		r.awaitTakeover,
		r.awaitControlPlane,
		r.syncOperation,
		r.observeNode,
	}
}

// paused is upstream's check, but for a machine that is new and not paused: that is
// written with the rest of its status.
func (r *Reconciler) paused(ctx context.Context, cluster *clusterv1.Cluster, m *infrav1.HostMachine) (isPaused, requeue bool, err error) {
	if conditions.Has(m, clusterv1.PausedCondition) || annotations.HasPaused(m) || (cluster != nil && ptr.Deref(cluster.Spec.Paused, false)) {
		return paused.EnsurePausedCondition(ctx, r.Client, cluster, m)
	}
	return false, false, nil
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
	owner       *placement.Owner
	// leaving says that an owner or the Cluster is being deleted; empty while none is.
	leaving string
	// host is the claimed host; nil until there is one.
	host *infrav1.Host
	// release is the KubernetesRelease of the version; nil without one.
	release *infrav1.KubernetesReleaseSpec
	// claimed is the host that this very reconcile claimed or found claimed, newer
	// than what the cache may show.
	claimed *infrav1.Host
	// waiting says why there is no claim yet; why the claim is lost, when lost.
	waiting *waiting
	// hostless is true when the machine has all that it needs but a host.
	hostless bool
	// held says why a claimed host has no operation yet; nil when nothing holds it back.
	held *waiting
	// virtualIP is the control-plane endpoint that a new operation names; initializes whether
	// its host makes the control plane, nil when that is not to be decided.
	virtualIP   clusterv1.APIEndpoint
	initializes *bool
	// rebootHeld says why a reboot is not requested yet; empty when nothing holds it back.
	rebootHeld string
	// ailment says what is wrong with a machine that was provisioned; nil when nothing is.
	ailment *waiting
	// partial is true after an error: what was not seen must not make a condition fall.
	partial bool
	// released is true when a deleted machine has let go of its host.
	released bool
	// withdrawn is true when the claim on a node that was not adopted was ended.
	withdrawn bool
	// etcdLeaves is true when all members of its etcd go with a deleted machine.
	etcdLeaves bool
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
