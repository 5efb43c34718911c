package agentrelease_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/agentrelease"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/throttle"
)

// start runs the reconciler with its watches and a cache, as slipway-manager does.
func (w *world) start(crash *testenv.Crash) {
	w.t.Helper()
	mgr, err := ctrl.NewManager(asManager, ctrl.Options{
		Scheme:     env.Scheme,
		Controller: controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			inner, err := client.NewWithWatch(c, o)
			return testenv.NewCrashing(inner, crash), err
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r := &agentrelease.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: w.Recorder, Version: w.Version, Namespace: w.namespace,
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	if err := r.SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: ptr.To(true), NewQueue: throttle.NewQueue}); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the manager failed: %v", err)
		}
	})
}

// With a real cache, which is behind now and then: a quarter of a failure domain updates at
// once, and one domain. What holds the rollout up wakes the reconciler when it ends.
func TestManager(t *testing.T) {
	level.Deep(t)
	w := newWorld(t)
	w.hosts("a", 8)
	w.hosts("b", 4)
	late := w.agents[11]
	late.Connect(t, false)
	release := w.release()
	release.Spec.Paused = ptr.To(true)
	if err := env.Client.Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	writes := &testenv.Crash{}
	w.start(writes)
	w.await(infrav1.AgentReleasePausedReason, 0)
	release = w.release()
	release.Spec.Paused = nil
	if err := env.Client.Update(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "11 hosts are updated", func() error {
		// An agent that reports makes room for the next one: only one look at all tells.
		if n := w.updating(); n > 2 {
			t.Fatalf("%d hosts update at once", n)
		}
		w.update("")
		if status := w.release().Status; status.Updated == nil || *status.Updated != 11 {
			return fmt.Errorf("it is at %+v", status)
		}
		return nil
	})
	w.await(infrav1.AgentReleaseRollingOutReason, 11)
	if h := late.Host(t); h.Spec.Agent != nil {
		t.Errorf("Host %s, which is away, is asked for %+v", h.Name, h.Spec.Agent)
	}
	late.Connect(t, true)
	poll.True(t, "the host that is back is asked", func() bool { return w.update("") == 1 })
	w.await(infrav1.AgentReleaseRolledOutReason, 12)
	for _, agent := range w.agents {
		if h := agent.Host(t); h.Generation != 2 {
			t.Errorf("Host %s was written %d times", h.Name, h.Generation-1)
		}
	}
	// What no plan depends on wakes nobody, and nothing is written.
	before := writes.Writes()
	late.Report(t, func(s *infrav1.HostStatus) { s.BootID = "boot-2" })
	time.Sleep(time.Second)
	if n := writes.Writes() - before; n > 0 {
		t.Errorf("%d writes at rest", n)
	}
}

// updating is how many hosts were asked and do not run the version, at one moment.
func (w *world) updating() int {
	w.t.Helper()
	list := &infrav1.HostList{}
	if err := env.Client.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for i := range list.Items {
		if h := &list.Items[i]; h.Spec.Agent != nil && h.Status.Inventory.AgentVersion != w.Version {
			n++
		}
	}
	return n
}

// await waits for the reason of the release and the number of hosts that are updated.
func (w *world) await(reason string, updated int32) {
	w.t.Helper()
	poll.Until(w.t, "the release is "+reason, func() error {
		s := w.release().Status
		if len(s.Conditions) == 0 || s.Conditions[0].Reason != reason || s.Updated == nil || *s.Updated != updated {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}
