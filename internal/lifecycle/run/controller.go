package run

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/match"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
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
	// APIReader reads past the cache: what was done must not be done again because
	// the cache is late, and no policy is gone on its word.
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
	matcher  match.Matcher
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
	// requeueAfter is when to look again.
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
