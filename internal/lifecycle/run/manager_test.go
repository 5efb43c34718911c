package run_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// start runs both controllers for the namespace of the world, until the test ends.
func (w *world) start(change ...func(*run.Reconciler)) {
	w.t.Helper()
	options := controller.Options{SkipNameValidation: ptr.To(true), NewQueue: deaf}
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{w.key.Namespace: {}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	reconciler := w.reconciler(mgr.GetClient())
	reconciler.APIReader, reconciler.Clock = mgr.GetAPIReader(), clock.RealClock{}
	for _, c := range change {
		c(reconciler)
	}
	if err := reconciler.SetupWithManager(mgr, options); err != nil {
		w.t.Fatal(err)
	}
	if err := (&run.ClusterReconciler{Client: mgr.GetClient(), Clock: clock.RealClock{}}).SetupWithManager(mgr, options); err != nil {
		w.t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- mgr.Start(running) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			w.t.Error(err)
		}
	})
}

// deaf is a queue without delayed requests: what happens, an event has caused.
func deaf(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return onlyEvents{workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})}
}

type onlyEvents struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func (q onlyEvents) AddAfter(item reconcile.Request, after time.Duration) {
	if after < 10*time.Second {
		q.TypedRateLimitingInterface.AddAfter(item, after)
	}
}

// until watches the objects of the world's namespace until one is as wanted.
func until[T client.Object](w *world, list client.ObjectList, what string, check func(T) bool) {
	w.t.Helper()
	changes, err := env.Client.Watch(poll.Context(w.t), list, client.InNamespace(w.key.Namespace))
	if err != nil {
		w.t.Fatal(err)
	}
	defer changes.Stop()
	var last any
	for change := range changes.ResultChan() {
		if object, ok := change.Object.(T); ok {
			if check(object) {
				return
			}
			last = object
		}
	}
	w.t.Fatalf("not %s in time; last seen: %+v", what, last)
}

func (w *world) untilPhase(phase lifecyclev1.RunPhase) {
	w.t.Helper()
	until(w, &lifecyclev1.LifecycleRunList{}, string(phase), func(r *lifecyclev1.LifecycleRun) bool { return r.Status.Phase == phase })
}

func (w *world) untilLifecycleReady(status bool) {
	w.t.Helper()
	until(w, &clusterv1.ClusterList{}, "LifecycleReady", func(c *clusterv1.Cluster) bool {
		return conditions.Has(c, lifecyclev1.ClusterLifecycleReadyCondition) && conditions.IsTrue(c, lifecyclev1.ClusterLifecycleReadyCondition) == status
	})
}

// TestChangesWakeTheController holds that nobody has to wait for the next look.
func TestChangesWakeTheController(t *testing.T) {
	w := newWorld(t, upgrade, approvalStep())
	w.start()
	w.untilPhase(lifecyclev1.RunWaiting)
	w.untilLifecycleReady(false)
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps[0].Approval.Message = "read the new notes" })
	until(w, &lifecyclev1.LifecycleRunList{}, "adopted", func(r *lifecyclev1.LifecycleRun) bool {
		return r.Spec.Steps[0].Approval.Message == "read the new notes" && r.Status.Phase == lifecyclev1.RunWaiting && len(r.Spec.Progress) == 1
	})
	w.decide(lifecyclev1.DecisionApprove, "go")
	w.untilPhase(lifecyclev1.RunSucceeded)
	w.untilLifecycleReady(true)

	w = newWorld(t, upgrade, approvalStep())
	w.start()
	w.untilPhase(lifecyclev1.RunWaiting)
	w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" })
	w.untilPhase(lifecyclev1.RunCancelled)
	w.untilLifecycleReady(true)

	w = newWorld(t, upgrade, approvalStep())
	w.start()
	w.untilPhase(lifecyclev1.RunWaiting)
	w.decide(lifecyclev1.DecisionApprove, "go")
	w.untilPhase(lifecyclev1.RunSucceeded)
	w.change(w.cluster, func() { w.cluster.Spec.Topology.Version = "v1.35.4" })
	w.untilPhase(lifecyclev1.RunCancelled)
}

// TestAPolicyWakesRunsThatMissedTheirWindow: such a run has succeeded.
func TestAPolicyWakesRunsThatMissedTheirWindow(t *testing.T) {
	w := missedWindow(t)
	w.start(func(r *run.Reconciler) { r.Clock = w.clock })
	w.change(w.policy, func() { w.policy.Spec.Hooks[0].Steps = w.policy.Spec.Hooks[0].Steps[1:] })
	until(w, &lifecyclev1.LifecycleRunList{}, "adopted", func(r *lifecyclev1.LifecycleRun) bool { return len(r.Spec.Steps) == 1 })
}
