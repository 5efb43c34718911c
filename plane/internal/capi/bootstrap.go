package capi

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/setup"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

var bootstrapSetup = upstream{
	cacheOptions:         setup.ManagerCacheOptions,
	clientOptions:        setup.ManagerClientOptions,
	clusterCacheOptions:  setup.ClusterCacheCacheOptions,
	clusterClientOptions: setup.ClusterCacheClientOptions,
	secretClient:         setup.CreateSecretCachingClient,
}

// newBootstrap builds the manager of the kubeadm bootstrap provider.
func newBootstrap(ctx context.Context, base *rest.Config, hooks webhook.Server, _ *shared) (ctrl.Manager, error) {
	s, err := newScheme(bootstrapTypes)
	if err != nil {
		return nil, err
	}
	e, err := newUpstreamEnv(ctx, base, "cluster-api-kubeadm-bootstrap-manager", s, bootstrapSetup, hooks)
	if err != nil {
		return nil, err
	}
	e.wake.on("kubeadmconfig", e.controlPlaneInitialized())
	return e, runSteps(ctx, e, bootstrapSteps)
}

var bootstrapSteps = []step{
	{"CRDMigrator", func(ctx context.Context, e *env) error {
		return migrate(ctx, e, map[client.Object]crdmigrator.ByObjectConfig{
			&bootstrapv1.KubeadmConfig{}:         {UseStatusForStorageVersionMigration: true},
			&bootstrapv1.KubeadmConfigTemplate{}: {},
		})
	}},
	{"KubeadmConfig", func(ctx context.Context, e *env) error {
		return (&kubeadmconfig.Reconciler{
			Client: e.GetClient(), SecretCachingClient: e.secrets, APIReader: e.GetAPIReader(),
			ClusterCache: e.clusters, TokenTTL: kubeadmconfig.DefaultTokenTTL,
		}).SetupWithManager(ctx, e, controllerOptions(concurrency))
	}},
	{"webhooks", func(_ context.Context, e *env) error {
		return errors.Join(
			(&admission.KubeadmConfig{}).SetupWebhookWithManager(e),
			(&admission.KubeadmConfigTemplate{}).SetupWebhookWithManager(e),
		)
	}},
}
