package run

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/expression"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/reconciler"
	"github.com/slipway-dev/slipway/internal/tracing"
)

// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecycleruns,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecycleruns/status,verbs=patch
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// Reconciler reconciles LifecycleRuns.
type Reconciler struct {
	Client client.Client
	// APIReader reads live: what was done must not be done again because
	// the cache is stale, and a policy that it lacks may exist.
	APIReader client.Reader
	// Env is what steps work with.
	Env *step.Env
	// KindOf returns the kind of a step: step.Of, but in tests.
	KindOf   func(*lifecyclev1.Step) step.Kind
	Recorder events.EventRecorder
	// Clock times steps and their retries.
	Clock clock.PassiveClock
	// Tracer makes the spans of runs; nil makes none.
	Tracer *tracing.Tracer

	attempts attempts
	flights  flights
	matcher  expression.Matcher
}

// scope is what one reconcile knows.
type scope struct {
	run *lifecyclev1.LifecycleRun
	// cluster is that of the run, never another of the same name.
	cluster *clusterv1.Cluster
	// policy is nil when it is gone.
	policy *lifecyclev1.LifecyclePolicy
	// stopped: the phases that follow have nothing to do.
	stopped bool
	// held tells why nothing happens although there is something to do.
	held string
	// seen is what the last attempt of the current step reported.
	seen string
	// nextAttempt is when a failed attempt is repeated.
	nextAttempt time.Time
	// requeueAfter is when to reconcile again.
	requeueAfter time.Duration
	// began is when this reconcile began the current step; zero when it did not.
	began time.Time
}

// phase is one part of a reconcile.
type phase func(context.Context, *scope) error

func (r *Reconciler) phases() []phase {
	return []phase{r.readCluster, r.readPolicy, r.cancel, r.adopt, r.pin, r.advance}
}

// Reconcile brings one LifecycleRun a step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, reterr error) {
	s, err := r.read(ctx, req.NamespacedName)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	before := s.run.DeepCopy()
	defer func() {
		reterr = kerrors.NewAggregate([]error{reterr, r.report(ctx, s, before)})
	}()
	for _, p := range r.phases() {
		if s.stopped {
			r.flights.abandon(req.NamespacedName)
			break
		}
		if err := p(ctx, s); err != nil {
			if apierrors.IsConflict(err) {
				ctrl.LoggerFrom(ctx).V(4).Info("Somebody else changed the run", "reason", err.Error())
				return ctrl.Result{RequeueAfter: time.Second}, nil
			}
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, nil
}

// read returns nil for a run that is gone. Only a settled one may come from the cache.
func (r *Reconciler) read(ctx context.Context, key client.ObjectKey) (*scope, error) {
	run := &lifecyclev1.LifecycleRun{}
	if err := r.Client.Get(ctx, key, run); err != nil {
		if apierrors.IsNotFound(err) {
			r.attempts.forget(key)
			r.flights.abandon(key)
		}
		return nil, client.IgnoreNotFound(err)
	}
	if plan.Finished(run) {
		r.attempts.forget(key)
		cluster, err := r.clusterOf(ctx, run)
		if err != nil {
			return nil, err
		}
		if cluster == nil || plan.Settled(run, cluster, r.Clock.Now()) {
			return &scope{run: run, stopped: true}, nil
		}
	}
	run = &lifecyclev1.LifecycleRun{}
	if err := r.APIReader.Get(ctx, key, run); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &scope{run: run, stopped: !run.DeletionTimestamp.IsZero()}, nil
}

// store writes the spec, unless somebody else has written it since it was read.
func (r *Reconciler) store(ctx context.Context, s *scope) error {
	return r.Client.Update(ctx, s.run)
}

// readCluster finds the Cluster of the run. Without it there is nothing to do: the
// garbage collector takes the run. While it is paused nothing happens: clusterctl move
// keeps it so until everything has arrived, policies among it. One that is paused because
// it waits for the run, and was never made, is none that clusterctl moves.
func (r *Reconciler) readCluster(ctx context.Context, s *scope) error {
	cluster, err := r.clusterOf(ctx, s.run)
	if err != nil {
		return err
	}
	if cluster == nil {
		s.stopped, s.held = true, "its Cluster is gone"
		return nil
	}
	s.cluster = cluster
	if annotations.IsPaused(cluster, s.run) && (!plan.Waits(cluster) || annotations.HasPaused(s.run)) {
		s.stopped, s.held = true, "the Cluster is paused"
	}
	return nil
}

// clusterOf returns the Cluster of a run; nil when it is gone.
func (r *Reconciler) clusterOf(ctx context.Context, run *lifecyclev1.LifecycleRun) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", run.Spec.ClusterName, err)
	}
	// Without a Cluster its UID is empty.
	if cluster.UID == "" || plan.OwnerUID(run) != cluster.UID {
		return nil, nil
	}
	return cluster, nil
}

// readPolicy finds the policy. That there is none any more, only the API server can
// tell.
func (r *Reconciler) readPolicy(ctx context.Context, s *scope) error {
	key := client.ObjectKey{Namespace: s.run.Namespace, Name: s.run.Spec.PolicyName}
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		policy := &lifecyclev1.LifecyclePolicy{}
		err := reader.Get(ctx, key, policy)
		if err == nil {
			s.policy = policy
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get LifecyclePolicy %s: %w", key.Name, err)
		}
	}
	return nil
}

// SetupWithManager watches LifecycleRuns, their policies and their Clusters. Gates
// look at the Cluster, so each of its changes counts.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	// The status is written here, and must not lead here again.
	written := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	r.flights.ended = make(chan event.GenericEvent)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecyclerun").
		WithOptions(options).
		For(&lifecyclev1.LifecycleRun{}, builder.WithPredicates(written)).
		Watches(&lifecyclev1.LifecyclePolicy{}, handler.EnqueueRequestsFromMapFunc(r.runsOf(ofPolicy)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.runsOf(ofCluster)), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(source.Channel(r.flights.ended, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the LifecycleRun controller: %w", err)
	}
	return nil
}

func ofPolicy(run *lifecyclev1.LifecycleRun) string  { return run.Spec.PolicyName }
func ofCluster(run *lifecyclev1.LifecycleRun) string { return run.Spec.ClusterName }

// runsOf returns the runs of an object that are not settled.
func (r *Reconciler) runsOf(name func(*lifecyclev1.LifecycleRun) string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		return reconciler.Requests(ctx, r.Client, &lifecyclev1.LifecycleRunList{}, func(run *lifecyclev1.LifecycleRun) bool {
			return name(run) == o.GetName() && !r.settled(ctx, run)
		}, client.InNamespace(o.GetNamespace()))
	}
}

func (r *Reconciler) settled(ctx context.Context, run *lifecyclev1.LifecycleRun) bool {
	if !plan.Finished(run) || run.Spec.Cancelled != "" {
		return plan.Finished(run)
	}
	cluster, err := r.clusterOf(ctx, run)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Find the Cluster of a LifecycleRun", "LifecycleRun", klog.KObj(run))
	}
	return cluster == nil || plan.Settled(run, cluster, r.Clock.Now())
}
