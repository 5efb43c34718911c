package agentrelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agentrollout"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=agentreleases,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=agentreleases/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.slipway.dev,resources=hosts,verbs=get;list;watch;patch;order
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles AgentReleases, one at a time.
type Reconciler struct {
	Client client.Client
	// APIReader reads past the cache what an earlier process asked for.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Version is the version of the manager: the release of it is rolled out.
	Version string
	// Namespace and WatchFilter restrict the reconciler to hosts of that namespace, and
	// with that value of the label cluster.x-k8s.io/watch-filter; it takes all when empty.
	Namespace, WatchFilter string

	// asked and told are the writes that the cache may not show yet.
	asked reconciler.Written[infrav1.HostAgentSpec]
	told  reconciler.Written[infrav1.AgentReleaseStatus]
	// caughtUp is true once the cache has shown what earlier processes asked for.
	caughtUp bool
}

// Reconcile brings the rollout of one AgentRelease a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	release := &infrav1.AgentRelease{}
	err := r.Client.Get(ctx, req.NamespacedName, release)
	if apierrors.IsNotFound(err) || err == nil && !release.DeletionTimestamp.IsZero() {
		forgetMetrics(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	hosts := map[types.NamespacedName]*infrav1.Host{}
	rollout := agentrollout.Rollout{Release: release.Spec, ManagerVersion: r.Version}
	if release.Spec.Version == r.Version {
		if hosts, err = r.hosts(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	for _, h := range hosts {
		rollout.Hosts = append(rollout.Hosts, r.seen(h))
	}
	plan := agentrollout.Make(rollout)
	observe(release.Name, plan)
	if len(plan.Ask) > 0 && !r.caughtUp {
		behind, err := r.behind(ctx, hosts)
		if err != nil {
			return ctrl.Result{}, err
		}
		if behind {
			return ctrl.Result{RequeueAfter: reconciler.ConflictRetry}, nil
		}
		r.caughtUp = true
	}
	for _, key := range plan.Ask {
		if err := r.ask(ctx, hosts[key], release); err != nil {
			return reconciler.Result(ctx, 0, err)
		}
	}
	if plan.Begins {
		r.Recorder.Eventf(release, nil, corev1.EventTypeNormal, infrav1.AgentReleaseRollingOutReason, "RollOut", "%.900s", plan.Condition.Message)
	}
	return reconciler.Result(ctx, 0, r.tell(ctx, release, plan))
}

// seen is a Host with what it was asked for and the cache may not show yet.
func (r *Reconciler) seen(h *infrav1.Host) agentrollout.Host {
	seen := agentrollout.HostOf(h)
	if asked, ok := r.asked.Over(h); ok {
		seen.Agent.Asked = asked
	}
	return seen
}

// ask asks a host to update. With the lock, what the cache has of the host is what the plan
// was made of, and the next that it has is what was asked.
func (r *Reconciler) ask(ctx context.Context, h *infrav1.Host, release *infrav1.AgentRelease) error {
	wanted := infrav1.HostAgentSpec{Version: release.Spec.Version, ReleaseDigest: release.Spec.Digest}
	asked := h.DeepCopy()
	asked.Spec.Agent = &wanted
	err := r.Client.Patch(ctx, asked, client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		// It may have been written all the same.
		r.caughtUp = r.caughtUp && apierrors.IsConflict(err)
		return fmt.Errorf("ask Host %s/%s to update its agent: %w", h.Namespace, h.Name, err)
	}
	r.asked.Note(h, asked, wanted)
	ctrl.LoggerFrom(ctx).Info("Asked the agent to update", "Host", klog.KObj(h), "version", wanted.Version)
	return nil
}

// tell writes the status, if it changed, and events of what somebody waits for.
func (r *Reconciler) tell(ctx context.Context, release *infrav1.AgentRelease, plan agentrollout.Plan) error {
	if told, ok := r.told.Over(release); ok {
		release.Status = told
	}
	before := release.DeepCopy()
	status := &release.Status
	status.Hosts, status.Updated, status.Failed, status.FailureDomain = nil, nil, nil, plan.Domain
	if plan.Condition.Reason != infrav1.AgentReleaseNotOfManagerReason {
		status.Hosts, status.Updated, status.Failed = ptr.To(plan.Hosts), ptr.To(plan.Updated), ptr.To(plan.Failed)
	}
	conditions.Set(release, plan.Condition)
	if equality.Semantic.DeepEqual(before.Status, release.Status) {
		return nil
	}
	after := release.DeepCopy()
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.told.Note(before, after, after.Status)
	if was := conditions.GetReason(before, plan.Condition.Type); was != plan.Condition.Reason {
		r.announce(release, plan.Condition)
	}
	return nil
}

// announce makes an event of what ends a rollout, for good or until somebody acts.
func (r *Reconciler) announce(release *infrav1.AgentRelease, c metav1.Condition) {
	switch c.Reason {
	case infrav1.AgentReleaseHaltedReason:
		r.Recorder.Eventf(release, nil, corev1.EventTypeWarning, c.Reason, "RollOut", "%.900s", c.Message)
	case infrav1.AgentReleaseRolledOutReason:
		r.Recorder.Eventf(release, nil, corev1.EventTypeNormal, c.Reason, "RollOut", "%.900s", c.Message)
	}
}
