package engine

import (
	"fmt"
	"net/netip"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/slipway-dev/slipway/internal/lifecycle/admission"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/internal/lifecycle/policy"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/tracing"
	"github.com/slipway-dev/slipway/internal/version"
)

// reportedBy is the name events are reported under.
const reportedBy = "slipway-lifecycle"

// userAgent is what API servers and endpoints log.
var userAgent = reportedBy + "/" + version.Version

// setupControllers adds what runs in the leader only.
func setupControllers(mgr ctrl.Manager, o Options, own *rights.Checker) error {
	networks, err := o.allowedNetworks()
	if err != nil {
		return err
	}
	err = (&run.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Env:       stepEnv(mgr, networks, own),
		KindOf:    step.Of,
		Recorder:  mgr.GetEventRecorder(reportedBy),
		Clock:     clock.RealClock{},
		Tracer:    tracing.New(o.Tracer),
	}).SetupWithManager(mgr, concurrency(o.RunConcurrency, o))
	if err != nil {
		return err
	}
	err = (&run.ClusterReconciler{Client: mgr.GetClient(), Clock: clock.RealClock{}}).SetupWithManager(mgr, concurrency(o.PolicyConcurrency, o))
	if err != nil {
		return fmt.Errorf("set up the condition of Clusters: %w", err)
	}
	asking := &hooks.Handler{Namespace: o.Namespace, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	if err := (&hooks.AskReconciler{Handler: asking}).SetupWithManager(mgr, concurrency(o.PolicyConcurrency, o)); err != nil {
		return err
	}
	guard := policy.Guard{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}
	if err := (&policy.NamespaceReconciler{Guard: guard, Namespace: o.Namespace, Clock: clock.RealClock{}}).SetupWithManager(mgr, concurrency(o.PolicyConcurrency, o)); err != nil {
		return err
	}
	return (&policy.Reconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Validate:  admission.Validate,
		Rights:    own,
		Clock:     clock.RealClock{},
	}).SetupWithManager(mgr, concurrency(o.PolicyConcurrency, o))
}

func concurrency(n int, o Options) controller.Options {
	return controller.Options{MaxConcurrentReconciles: n, SkipNameValidation: ptr.To(o.SkipNameValidation)}
}

// stepEnv is what steps work with.
func stepEnv(mgr ctrl.Manager, networks []netip.Prefix, own *rights.Checker) *step.Env {
	return &step.Env{
		Cache:           mgr.GetClient(),
		Management:      own.Client(mgr.GetClient()),
		Config:          mgr.GetConfig(),
		Workload:        workload.New(own.Reader(mgr.GetAPIReader()), userAgent),
		AllowedNetworks: networks,
		UserAgent:       userAgent,
	}
}
