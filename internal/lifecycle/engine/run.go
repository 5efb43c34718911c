package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/lifecycle/admission"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
	"github.com/slipway-dev/slipway/internal/lifecycle/run"
	"github.com/slipway-dev/slipway/internal/program"
)

// leaderElectionID names the Lease of the leader.
const leaderElectionID = "slipway-lifecycle-leader-election"

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// AddToScheme registers every type of the management cluster that the engine reads or
// writes.
func AddToScheme(scheme *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, batchv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, lifecyclev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("register API types: %w", err)
		}
	}
	return nil
}

// Run runs the engine against an API server. It blocks until the context is done or
// a part of it fails.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return err
	}
	// A hook must not wait for a bucket of tokens; the API server defends itself.
	config = rest.CopyConfig(config)
	config.QPS = -1
	options := ctrl.Options{
		Scheme: scheme,
		// The priority queue of controller-runtime v0.24 can block for ever when it is shut
		// down while a worker waits for it (kubernetes-sigs/controller-runtime 3538, mended by
		// 3540): the engine would end after its grace period only, with an error, and keep the
		// Lease from the next leader while hooks wait for an answer.
		Controller: controllerconfig.Controller{UsePriorityQueue: ptr.To(false)},
		Cache:      program.CacheOptions(o.Namespace),
		// Few of these are ever needed, and not again: they are read when they are.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &corev1.ConfigMap{}, &batchv1.Job{}, &corev1.Pod{},
		}}},
	}
	// Managed fields are never looked at.
	options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	o.ApplyLeaderElection(&options, leaderElectionID)
	mgr, err := program.NewManager(config, options, program.Endpoints{
		Probes: o.ProbeAddress, Metrics: o.MetricsAddress, InsecureMetrics: o.InsecureMetrics,
		WebhookHost: o.WebhookHost, WebhookPort: o.WebhookPort, WebhookCertDir: o.CertDir,
	})
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	flush, err := startTraces(ctx, &o)
	if err != nil {
		return err
	}
	// Hooks are answered until the manager has ended.
	defer flush()
	if err := setup(ctx, mgr, o); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

// setup adds all parts to the manager.
func setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	server, err := newHookServer(ctx, mgr, o)
	if err != nil {
		return err
	}
	own, err := rights.New(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("set up who asks for the rights of the engine: %w", err)
	}
	if err := setupControllers(mgr, o, own); err != nil {
		return err
	}
	if err := admission.SetupWithManager(mgr, o.Namespace, own); err != nil {
		return err
	}
	return errors.Join(
		mgr.Add(server),
		registerMetrics(mgr.GetClient(), mgr.Elected()),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("hooks", server.Check),
		// The API server calls the webhooks as soon as the pod is ready.
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
	)
}

// registerMetrics registers the metrics of runs and hooks; only the leader serves those of runs.
func registerMetrics(reader client.Reader, elected <-chan struct{}) error {
	leaders := program.WhileElected(elected, run.Collectors(reader, clock.RealClock{})...)
	return program.RegisterMetrics(slices.Concat(leaders, hooks.Collectors())...)
}
