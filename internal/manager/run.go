package manager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/slipway-dev/slipway/internal/program"
)

// leaderElectionID names the Lease of the leader.
const leaderElectionID = "slipway-manager-leader-election"

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Run runs the provider against an API server. It blocks until the context is
// done or the manager fails.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return err
	}
	byObject, err := CacheByObject()
	if err != nil {
		return err
	}
	options := ctrl.Options{
		Scheme: scheme,
		Cache:  program.CacheOptions(o.Namespace),
	}
	options.Cache.ByObject = byObject
	o.ApplyLeaderElection(&options, leaderElectionID)
	mgr, err := program.NewManager(config, options, program.Endpoints{
		Probes: o.ProbeAddress, Metrics: o.MetricsAddress, WebhookPort: o.WebhookPort, WebhookCertDir: o.WebhookCertDir,
	})
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	if err := SetupWithManager(ctx, mgr, o); err != nil {
		return err
	}
	if err := addChecks(mgr); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

func addChecks(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	// The API server calls the webhooks as soon as the pod is ready.
	if err := mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	return nil
}
