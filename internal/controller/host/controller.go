package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/paused"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/hosthooks"
	"github.com/slipway-dev/slipway/internal/reconciler"
	"github.com/slipway-dev/slipway/internal/throttle"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// FieldOwner owns phase and conditions in the status of a Host.
const FieldOwner = "slipway-host-controller"

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch;create;update;patch
// The admission policy of Hosts asks for the verb order: config/admission/host_policy.yaml.
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=order
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hostmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// Rights on Secrets are not generated: config/rbac/secrets_role.yaml, which is bound by namespace.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles Hosts.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache, before a claim is called orphaned.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Clock judges heartbeats, by when they are seen.
	Clock clock.PassiveClock
	// Version is the version of the manager, to judge the agent's by.
	Version string
	// Hooks may hold back a released host. Default: none.
	Hooks *hosthooks.Hooks
	// Tracer tells what operations did. Default: no traces.
	Tracer *tracing.Tracer
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string
	// StatusDelay is how long a claimed host may be on its way to run before its status
	// tells how far it is; not at all when zero. What lasts longer, fails or
	// succeeds is written at once: in a large pool most states pass before anybody
	// reads them.
	StatusDelay time.Duration
	// Bundles is where hosts are told that host bundles are served. Default: nowhere.
	Bundles func() BundleServer

	statuses   throttle.Status
	fleet      fleet
	heartbeats heartbeats
	operations operations
	signers    signers
}

// BundleServer is where host bundles are served: its URL, and the digest of its CA where
// that is not the one of the management cluster.
type BundleServer struct{ URL, CAHash string }

// scope holds what the phases saw in one reconcile.
type scope struct {
	host  *infrav1.Host
	facts host.Facts
	// cluster is the one that claimed the host; nil for none.
	cluster *clusterv1.Cluster
	// paused is true while the host is, with its Cluster or alone.
	paused bool
	// lease is the heartbeat; nil while there is none.
	lease *coordinationv1.Lease
	// machineGone is true when a live read found no HostMachine for the claim.
	machineGone bool
	// statusDue is how long the status has to wait still.
	statusDue time.Duration
	// hookRetry is when to call a hook again that holds back the host.
	hookRetry time.Duration
	// requeueAfter is when to look again; see lookAgain.
	requeueAfter time.Duration
}

// Reconcile brings one Host a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	h := &infrav1.Host{}
	if found, err := reconciler.Read(ctx, r.Client, req, h, r.WatchFilter); err != nil {
		return ctrl.Result{}, err
	} else if !found {
		r.operations.forget(req.NamespacedName)
		r.statuses.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if op := h.Status.ObservedOperation; r.operations.ended(req.NamespacedName, op) {
		count(op, tracing.Exemplar(r.traceOperation(ctx, h, op)))
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, h, infrav1.HostFinalizer); err != nil || added {
		return ctrl.Result{}, err
	}
	cluster, err := r.cluster(ctx, h)
	if err != nil {
		return ctrl.Result{}, err
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, h)
	if err != nil || requeue {
		return ctrl.Result{}, err
	}
	s := &scope{host: h, cluster: cluster, paused: isPaused, facts: host.Facts{ManagerVersion: r.Version}}
	err = reconciler.Run(ctx, s, r.phases(s))
	return reconciler.Result(ctx, s.requeueAfter, err)
}

// phases are what is done for a host, in this order. One that changed the spec of the Host
// holds back the following ones, so that they see the change in a reconcile of their own;
// holdMove and yieldToMove, which change an annotation, do not.
func (r *Reconciler) phases(s *scope) []reconciler.Phase[*scope] {
	switch {
	case s.paused && !s.host.DeletionTimestamp.IsZero():
		return nil
	case s.paused:
		return []reconciler.Phase[*scope]{r.readConnection, r.announce, r.judgeMove, r.yieldToMove, r.lookAgain}
	case !s.host.DeletionTimestamp.IsZero():
		return []reconciler.Phase[*scope]{r.readConnection, r.findTwin, r.findOrphan, r.clearClaim, r.forget, r.applyStatus, r.lookAgain}
	}
	return []reconciler.Phase[*scope]{
		r.readConnection,
		r.ensureLease,
		r.ensureRBAC,
		r.approve,
		r.labelHardware,
		r.findTwin,
		r.findOrphan,
		r.releaseOrphan,
		r.clearQuarantine,
		r.endRestore,
		r.clearClaim,
		r.holdMove,
		r.callReleaseHooks,
		r.judgeMove,
		r.applyStatus,
		r.lookAgain,
	}
}

// cluster returns the Cluster that claimed the host, or nil. A paused Cluster
// pauses its hosts: nothing of them may change while they are being moved.
func (r *Reconciler) cluster(ctx context.Context, h *infrav1.Host) (*clusterv1.Cluster, error) {
	if h.Spec.Claim == nil {
		return nil, nil
	}
	return reconciler.Cluster(ctx, r.Client, h.Namespace, h.Spec.Claim.ClusterName)
}

func (r *Reconciler) readConnection(ctx context.Context, s *scope) (bool, error) {
	lease := &coordinationv1.Lease{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(s.host), lease)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get the heartbeat of the host: %w", err)
	}
	if err == nil {
		s.lease, s.facts.ReportRefused = lease, lease.Annotations[infrav1.ReportRefusedAnnotation]
		s.facts.Connection, s.facts.ClockSkew = r.heartbeats.judge(lease, host.Connected(s.host), r.Clock.Now())
	}
	return true, nil
}

// findTwin looks for a host with the same key, in all namespaces of the manager, or the
// same machine-id, in its own: a machine that enrolled twice could be claimed twice.
func (r *Reconciler) findTwin(ctx context.Context, s *scope) (bool, error) {
	twins, err := r.twins(ctx, s.host)
	if err != nil {
		return false, err
	}
	s.facts.Twin = host.TwinOf(s.host, twins)
	if s.facts.Twin != nil && !conditions.IsTrue(s.host, infrav1.DuplicateIdentityCondition) {
		r.Recorder.Eventf(s.host, nil, "Warning", infrav1.HostDuplicateIdentityReason, "Enroll", "%s has the same %s", s.facts.Twin, s.facts.Twin.Shared)
	}
	return true, nil
}

// twins lists the hosts that share the key of h, those of its namespace that share its
// machine-id, and h itself.
func (r *Reconciler) twins(ctx context.Context, h *infrav1.Host) ([]infrav1.Host, error) {
	var twins []infrav1.Host
	look := func(field, value string, where ...client.ListOption) error {
		if value == "" {
			return nil
		}
		hosts := &infrav1.HostList{}
		if err := r.Client.List(ctx, hosts, append(where, client.MatchingFields{field: value})...); err != nil {
			return fmt.Errorf("look for hosts with the same %s: %w", field, err)
		}
		twins = append(twins, hosts.Items...)
		return nil
	}
	return twins, errors.Join(
		look(infrav1.HostIDField, h.Spec.HostID),
		look(infrav1.HostMachineIDField, h.Status.Inventory.MachineID, client.InNamespace(h.Namespace)),
	)
}

// lookAgain says when: at the next change to expect, or to call a hook again.
func (r *Reconciler) lookAgain(_ context.Context, s *scope) (bool, error) {
	s.requeueAfter = sooner(r.next(s), s.hookRetry)
	return true, nil
}

// next is when the heartbeat stops being fresh, since renewals don't wake this
// controller, or when a status that waits is due.
func (r *Reconciler) next(s *scope) time.Duration {
	if s.statusDue > 0 {
		return s.statusDue
	}
	if !s.facts.Connection.Connected {
		return 0
	}
	return s.facts.Connection.Expires.Sub(r.Clock.Now())
}
