package manager

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/agentrelease"
	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/controller/host"
	"github.com/slipway-dev/slipway/internal/controller/hostcluster"
	"github.com/slipway-dev/slipway/internal/controller/hostmachine"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinepool"
	"github.com/slipway-dev/slipway/internal/controller/hostmachinetemplate"
	"github.com/slipway-dev/slipway/internal/program"
	"github.com/slipway-dev/slipway/internal/throttle"
	"github.com/slipway-dev/slipway/internal/tracing"
	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/internal/webhook"
)

// reportedBy is the name events are reported under.
const reportedBy = "slipway-manager"

// SetupWithManager adds the provider to a manager: indexes, metrics, controllers
// and webhooks. The scheme of the manager must know AddToScheme's types, and its
// cache should be kept to CacheByObject.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, o Options) error {
	for field, value := range hostIndexes {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.Host{}, field, value); err != nil {
			return fmt.Errorf("index hosts by %s: %w", field, err)
		}
	}
	if err := registerMetrics(mgr.GetClient(), mgr.Elected()); err != nil {
		return err
	}
	var err error
	if o.Tracer, err = setupTraces(ctx, mgr, o); err != nil {
		return err
	}
	if o.hostHooks, err = setupExtensions(mgr, o); err != nil {
		return err
	}
	for _, setup := range []func(context.Context, ctrl.Manager, Options) error{
		setupHost, setupSecretAccess, setupHandOver, setupLogs, setupEnrollment, setupHostCluster, setupHostMachine, setupHostMachinePool, setupHostMachineTemplate,
		setupAgentRelease, setupInPlaceUpdates, setupHostBundles,
	} {
		if err := setup(ctx, mgr, o); err != nil {
			return err
		}
	}
	return webhook.SetupWithManager(mgr, webhook.Options{NoHostExtensionConfigs: !o.FeatureGates.Enabled(HostExtensionConfig)})
}

// hostIndexes are the selectable fields of Hosts, which the cache doesn't index by
// itself.
var hostIndexes = map[string]client.IndexerFunc{
	infrav1.HostClaimIDField: hostIndex(func(h *infrav1.Host) string {
		if h.Spec.Claim == nil {
			return ""
		}
		return h.Spec.Claim.ClaimID
	}),
	infrav1.HostIDField:        hostIndex(func(h *infrav1.Host) string { return h.Spec.HostID }),
	infrav1.HostMachineIDField: hostIndex(func(h *infrav1.Host) string { return h.Status.Inventory.MachineID }),
}

func hostIndex(value func(*infrav1.Host) string) client.IndexerFunc {
	return func(o client.Object) []string {
		if h, ok := o.(*infrav1.Host); ok && value(h) != "" {
			return []string{value(h)}
		}
		return nil
	}
}

// registerMetrics registers the metrics of the provider's kinds; only the leader serves those of their state.
func registerMetrics(reader client.Reader, elected <-chan struct{}) error {
	leaders := program.WhileElected(elected, slices.Concat(hostmachine.Collectors(reader), hostmachinepool.Collectors(), host.Collectors(reader), agentrelease.Collectors(), Collectors(reader))...)
	return program.RegisterMetrics(slices.Concat(leaders, extensionconfig.Collectors())...)
}

func concurrency(n int, o Options) controller.Options {
	return controller.Options{MaxConcurrentReconciles: n, SkipNameValidation: ptr.To(o.SkipNameValidation)}
}

// throttled are the options of a controller whose reconciles grow with their objects.
func throttled(o controller.Options) controller.Options {
	o.NewQueue = throttle.NewQueue
	return o
}

func setupHost(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&host.Reconciler{
		Hooks:       o.hostHooks,
		Tracer:      tracing.New(o.Tracer),
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		Clock:       clock.RealClock{},
		Version:     version.Version,
		WatchFilter: o.WatchFilter,
		StatusDelay: o.StatusDelay,
		Bundles:     bundles(mgr, o),
	}).SetupWithManager(ctx, mgr, concurrency(o.HostConcurrency, o))
}

func setupSecretAccess(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&host.SecretAccessReconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Recorder:  mgr.GetEventRecorder(reportedBy),
		Namespace: o.Namespace,
		Clock:     clock.RealClock{},
	}).SetupWithManager(ctx, mgr, concurrency(1, o))
}

func setupHandOver(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&host.HandOverReconciler{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Recorder:  mgr.GetEventRecorder(reportedBy),
		Clock:     clock.RealClock{},
	}).SetupWithManager(ctx, mgr, concurrency(1, o))
}

func setupLogs(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&host.LogReconciler{
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		Clock:       clock.RealClock{},
		WatchFilter: o.WatchFilter,
	}).SetupWithManager(ctx, mgr, concurrency(1, o))
}

func setupEnrollment(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&host.CSRReconciler{
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		Namespace:   o.Namespace,
		WatchFilter: o.WatchFilter,
	}).SetupWithManager(ctx, mgr, concurrency(o.HostConcurrency, o))
}

func setupHostCluster(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&hostcluster.Reconciler{
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		WatchFilter: o.WatchFilter,
	}).SetupWithManager(ctx, mgr, concurrency(o.HostClusterConcurrency, o))
}

func setupHostMachine(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&hostmachine.Reconciler{
		Hooks:       o.hostHooks,
		Tracer:      tracing.New(o.Tracer),
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		Clock:       clock.RealClock{},
		WatchFilter: o.WatchFilter,
		StatusDelay: o.StatusDelay,
		Version:     version.Version,
	}).SetupWithManager(ctx, mgr, concurrency(o.HostMachineConcurrency, o))
}

func setupHostMachinePool(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&hostmachinepool.Reconciler{
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		Clock:       clock.RealClock{},
		WatchFilter: o.WatchFilter,
	}).SetupWithManager(ctx, mgr, throttled(concurrency(o.HostMachinePoolConcurrency, o)))
}

func setupHostMachineTemplate(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&hostmachinetemplate.Reconciler{
		Client:      mgr.GetClient(),
		WatchFilter: o.WatchFilter,
	}).SetupWithManager(ctx, mgr, concurrency(1, o))
}

func setupAgentRelease(ctx context.Context, mgr ctrl.Manager, o Options) error {
	return (&agentrelease.Reconciler{
		Client:      mgr.GetClient(),
		APIReader:   mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder(reportedBy),
		Version:     version.Version,
		Namespace:   o.Namespace,
		WatchFilter: o.WatchFilter,
	}).SetupWithManager(ctx, mgr, throttled(concurrency(1, o)))
}
