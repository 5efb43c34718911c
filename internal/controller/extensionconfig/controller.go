package extensionconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/paused"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/text"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// +kubebuilder:rbac:groups=runtime.slipway.dev,resources=hostextensionconfigs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=runtime.slipway.dev,resources=hostextensionconfigs/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// Rights on Secrets are not generated: config/rbac/secrets_role.yaml, which is bound by namespace.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// DefaultInterval is the time between two discoveries of an extension that answers.
	DefaultInterval = 10 * time.Minute
	// One that does not answer is asked again after minRetry, then twice as long
	// each time up to maxRetry.
	minRetry, maxRetry = time.Second, 2 * time.Minute
	// patience is how many discoveries in a row may fail before a Warning tells of an
	// extension that has not answered yet: one that was registered a moment ago is often
	// about to start. It comes after a quarter of a minute.
	patience = 5
	// jitter is the part by which pauses are longer at random.
	jitter = 0.2
	// notReadyRetry is the pause while the registry is being warmed up.
	notReadyRetry = 200 * time.Millisecond
)

// Reconciler reconciles the objects of one Kind.
type Reconciler struct {
	Kind    Kind
	Runtime *Runtime
	Client  client.Client
	// APIReader reads Secrets and the objects past the cache: a breaker that opens and
	// closes at once is two reconciles within milliseconds, and the second would find in
	// the cache what the first has overwritten, and nothing to write.
	APIReader client.Reader
	Recorder  events.EventRecorder
	// Interval is the time between two discoveries. Default: DefaultInterval.
	Interval time.Duration
	// WatchFilter restricts the reconciler to objects with that value of the
	// label cluster.x-k8s.io/watch-filter; it takes all when empty.
	WatchFilter string

	// failures counts the failed discoveries in a row, by name of the object.
	failures workqueue.TypedRateLimiter[string]
}

// scope holds what the phases saw in one reconcile.
type scope struct {
	kind     Kind
	original Object
	object   Object
	// failure is why the handlers could not be discovered.
	failure error
}

// entry returns the object, as it is by now, as the registry takes it.
func (s *scope) entry() (registry.Entry, error) { return s.kind.Entry(s.object) }

func (s *scope) handlers() []runtimev1.ExtensionHandler {
	// Without selectors that can be read, an entry still has its handlers.
	entry, _ := s.entry()
	return entry.Handlers
}

// writeError is a failure of the API server, not of the extension.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }

// Reconcile brings one object and its part of the registry up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if !r.Runtime.Registry.Ready() {
		return ctrl.Result{RequeueAfter: notReadyRetry}, nil
	}
	object := r.Kind.New()
	err := r.APIReader.Get(ctx, req.NamespacedName, object)
	// A Secret brings the objects of other managers, too, and a label may have changed.
	if apierrors.IsNotFound(err) || (err == nil && (!object.GetDeletionTimestamp().IsZero() || !r.selected(object))) {
		r.forget(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.refresh(ctx, object)
}

// refresh is all of a reconcile for an object that exists. It may change object.
func (r *Reconciler) refresh(ctx context.Context, object Object) (ctrl.Result, error) {
	s := &scope{kind: r.Kind, original: object.DeepCopyObject().(Object), object: object}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, nil, object)
	switch {
	case err != nil:
		r.registerLastKnown(object, err)
		return ctrl.Result{}, err
	case isPaused:
		r.registerLastKnown(object, errPaused)
		return ctrl.Result{}, nil
	case requeue:
		s.original = object.DeepCopyObject().(Object)
	}
	for _, phase := range []func(context.Context, *scope) error{r.injectCA, r.discover, r.register} {
		if s.failure = phase(ctx, s); s.failure != nil {
			break
		}
	}
	r.setConditions(s)
	err = r.writeStatus(ctx, s)
	if s.failure != nil {
		r.registerLastKnown(object, s.failure)
	}
	r.observe(s)
	if err == nil {
		r.report(s)
	}
	var write *writeError
	if errors.As(s.failure, &write) {
		err = errors.Join(write, err)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.next(object.GetName(), s.failure)}, nil
}

// errPaused is why an object that was created paused is not called.
var errPaused = errors.New("it is paused and was never discovered")

// discover asks the extension for its handlers.
func (r *Reconciler) discover(ctx context.Context, s *scope) error {
	entry, err := s.entry()
	if err != nil {
		return err
	}
	handlers, err := r.Runtime.Client.Discover(ctx, entry)
	if err != nil {
		return err
	}
	r.Kind.SetHandlers(s.object, handlers)
	return nil
}

// register brings the registry in step with what was discovered.
func (r *Reconciler) register(_ context.Context, s *scope) error {
	entry, err := s.entry()
	if err != nil {
		return err
	}
	return r.Runtime.Registry.Set(entry)
}

// writeStatus writes the status if it changed. Only one process does so, the leader.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if equality.Semantic.DeepEqual(s.original, s.object) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, s.object, client.MergeFrom(s.original)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status: %w", err))
	}
	return nil
}

// registerLastKnown registers an object whose handlers were not discovered now, for
// the reason in failure. What the spec says counts at once; the handlers are those
// of the last discovery. Without any, the objects that the spec selects are refused.
func (r *Reconciler) registerLastKnown(object Object, failure error) {
	entry, err := r.Kind.Entry(object)
	if err == nil && len(entry.Handlers) > 0 {
		err = r.Runtime.Registry.Set(entry)
		if err == nil {
			return
		}
	}
	r.Runtime.Registry.SetUnresolved(entry, cmp.Or(err, failure))
}

// forget drops all that is known of an object that is gone.
func (r *Reconciler) forget(name string) {
	r.Runtime.Registry.Remove(name)
	r.Runtime.Client.Forget(name)
	r.failures.Forget(name)
	forgetMetrics(r.Kind.Name, name)
}

// next returns when to discover again.
func (r *Reconciler) next(name string, failure error) time.Duration {
	if failure != nil {
		return wait.Jitter(r.failures.When(name), jitter)
	}
	r.failures.Forget(name)
	interval := r.Interval
	if interval == 0 {
		interval = DefaultInterval
	}
	return wait.Jitter(interval, jitter)
}

// report tells of a change of the Discovered condition as an event.
func (r *Reconciler) report(s *scope) {
	after := conditions.Get(s.object, runtimev1alpha1.DiscoveredCondition)
	was := conditions.IsTrue(s.original, runtimev1alpha1.DiscoveredCondition)
	kind := "Normal"
	switch {
	case after == nil || (s.failure == nil && was):
		return
	case s.failure != nil && !was && r.failures.NumRequeues(s.object.GetName())+1 != patience:
		return
	case s.failure != nil:
		kind = "Warning"
	}
	r.Recorder.Eventf(s.object, nil, kind, after.Reason, "Discover", "%s", discoveredEvent(s))
}

func discoveredEvent(s *scope) string {
	if s.failure != nil {
		return text.Start(s.failure.Error(), maxMessage)
	}
	return fmt.Sprintf("The extension serves %d handlers", len(s.handlers()))
}
