package capi

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/pkg/etcd"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/reconcilers/kubeadmcontrolplane"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/setup"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

var controlPlaneSetup = upstream{
	cacheOptions:         setup.ManagerCacheOptions,
	clientOptions:        setup.ManagerClientOptions,
	clusterCacheOptions:  setup.ClusterCacheCacheOptions,
	clusterClientOptions: setup.ClusterCacheClientOptions,
	secretClient:         setup.CreateSecretCachingClient,
}

const (
	// etcdDialTimeout is that of upstream's main.
	etcdDialTimeout = 10 * time.Second

	// kcpReconcileTimeout: a reconcile may talk to all etcd members in turn.
	kcpReconcileTimeout = 3 * time.Minute
)

// newControlPlane builds the manager of the kubeadm control-plane provider.
func newControlPlane(ctx context.Context, base *rest.Config, hooks webhook.Server, common *shared) (ctrl.Manager, error) {
	s, err := newScheme(controlPlaneTypes)
	if err != nil {
		return nil, err
	}
	e, err := newUpstreamEnv(ctx, base, "cluster-api-kubeadm-control-plane-manager", s, controlPlaneSetup, hooks)
	if err != nil {
		return nil, err
	}
	conversion.SetAPIVersionGetter(apiVersionGetter(e.GetClient()))
	workload, err := e.workloadChanged()
	if err != nil {
		return nil, err
	}
	e.wake.on("kubeadmcontrolplane", workload)
	return e, runSteps(ctx, e, controlPlaneSteps(common))
}

func controlPlaneSteps(common *shared) []step {
	return []step{
		{"CRDMigrator", func(ctx context.Context, e *env) error {
			return migrate(ctx, e, map[client.Object]crdmigrator.ByObjectConfig{
				&controlplanev1.KubeadmControlPlane{}:         {UseStatusForStorageVersionMigration: true},
				&controlplanev1.KubeadmControlPlaneTemplate{}: {},
			})
		}},
		{"KubeadmControlPlane", func(ctx context.Context, e *env) error {
			options := controllerOptions(concurrency)
			options.ReconciliationTimeout = kcpReconcileTimeout
			return (&kubeadmcontrolplane.Reconciler{
				Client: e.GetClient(), APIReader: e.GetAPIReader(), SecretCachingClient: e.secrets, ClusterCache: e.clusters,
				EtcdDialTimeout: etcdDialTimeout, EtcdCallTimeout: etcd.DefaultCallTimeout, EtcdLogger: zap.NewNop(),
				RemoteConditionsGracePeriod: remoteConditionsGracePeriod, RuntimeClient: common.client,
			}).SetupWithManager(ctx, e, options)
		}},
		{"webhooks", func(_ context.Context, e *env) error {
			return errors.Join(
				(&admission.KubeadmControlPlane{}).SetupWebhookWithManager(e),
				(&admission.ScaleValidator{Client: e.GetClient()}).SetupWebhookWithManager(e),
				(&admission.KubeadmControlPlaneTemplate{}).SetupWebhookWithManager(e),
			)
		}},
	}
}
