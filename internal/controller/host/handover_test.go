package host_test

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	hostcontroller "github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// watchHandOvers runs the controller of hand-overs, with its cache, until the test ends.
func (w *world) watchHandOvers() {
	w.t.Helper()
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		// The priority queue can block when it is shut down while a worker waits for it.
		Controller: controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r := &hostcontroller.HandOverReconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: &events.FakeRecorder{}, Clock: clock.RealClock{}}
	ctx, cancel := context.WithCancel(w.t.Context())
	if err := r.SetupWithManager(ctx, mgr, controller.Options{SkipNameValidation: ptr.To(true)}); err != nil {
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

// Nobody touches the Secret when an approval is withdrawn, nor when the Role is gone: the
// controller has to see it by itself.
func TestRightsOnAHandOverAreWatched(t *testing.T) {
	w, agent, _ := movable(t)
	secret := w.order(target(t))
	w.watchHandOvers()
	eventually := func(what string, holds func() bool) {
		t.Helper()
		poll.True(t, time.Minute, what, holds)
	}
	role := func() *rbacv1.Role {
		t.Helper()
		role := &rbacv1.Role{}
		if err := client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), role)); err != nil {
			t.Fatal(err)
		}
		return role
	}
	readers := func() int {
		t.Helper()
		binding := &rbacv1.RoleBinding{}
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), binding); err != nil {
			t.Fatal(err)
		}
		return len(binding.Subjects)
	}
	approve := func(approval infrav1.HostApproval) {
		t.Helper()
		h := agent.Host(t)
		h.Spec.Approval = approval
		w.update(h)
	}
	approve(infrav1.HostApprovalDenied)
	eventually("a host that is denied is off the list", func() bool { return readers() == 0 })
	approve(infrav1.HostApprovalApproved)
	eventually("a host that is approved again is on the list", func() bool { return readers() == 1 })
	approve(infrav1.HostApprovalDenied)
	eventually("a host that is denied again is off the list", func() bool { return readers() == 0 })
	before := role()
	if err := env.Client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	eventually("a Role that was deleted is there again", func() bool { return role().UID != "" && role().UID != before.UID })
}
