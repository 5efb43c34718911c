package capi

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinepool"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

var coreSetup = upstream{
	cacheOptions:         setup.ManagerCacheOptions,
	clientOptions:        setup.ManagerClientOptions,
	clusterCacheOptions:  setup.ClusterCacheCacheOptions,
	clusterClientOptions: setup.ClusterCacheClientOptions,
	secretClient:         setup.CreateSecretCachingClient,
}

// newCore builds the manager of Cluster API's core provider.
func newCore(ctx context.Context, base *rest.Config, hooks webhook.Server, common *shared) (ctrl.Manager, error) {
	s, err := newScheme(coreTypes)
	if err != nil {
		return nil, err
	}
	e, err := newUpstreamEnv(ctx, base, "cluster-api-controller-manager", s, coreSetup, hooks)
	if err != nil {
		return nil, err
	}
	if err := index.AddDefaultIndexes(ctx, e); err != nil {
		return nil, fmt.Errorf("indexes: %w", err)
	}
	secretMetadata, err := newSecretMetadataCache(e)
	if err != nil {
		return nil, err
	}
	conversion.SetAPIVersionGetter(apiVersionGetter(e.GetClient()))
	e.wake.on("machineset", e.controlPlaneChanged())
	e.wake.on("machinepool", e.controlPlaneInitialized())

	for _, steps := range [][]step{coreControllers(common, secretMetadata), coreWebhooks(common)} {
		if err := runSteps(ctx, e, steps); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// newSecretMetadataCache sees all Secrets, not only those of clusters, hence
// no more than their metadata.
func newSecretMetadataCache(e *env) (cache.Cache, error) {
	c, err := cache.New(e.GetConfig(), cache.Options{
		Scheme:     e.GetScheme(),
		Mapper:     e.GetRESTMapper(),
		HTTPClient: e.GetHTTPClient(),
		SyncPeriod: ptr.To(syncPeriod),
		DefaultTransform: func(in any) (any, error) {
			obj, ok := in.(*metav1.PartialObjectMetadata)
			if !ok || obj.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
				return nil, fmt.Errorf("a cache for the metadata of Secrets was asked for %T", in)
			}
			return cache.TransformStripManagedFields()(obj)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cache of secret metadata: %w", err)
	}
	return c, e.Add(c)
}

func coreControllers(common *shared, secretMetadata cache.Cache) []step {
	many, rc := controllerOptions(concurrency), common.client
	return []step{
		{"CRDMigrator", func(ctx context.Context, e *env) error { return migrate(ctx, e, coreMigrations) }},
		{"ClusterClass", func(ctx context.Context, e *env) error {
			return (&clusterclass.Reconciler{Client: e.GetClient(), RuntimeClient: rc}).SetupWithManager(ctx, e, many)
		}},
		{"ClusterTopology", func(ctx context.Context, e *env) error {
			return (&topologycluster.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader(), RuntimeClient: rc, ClusterCache: e.clusters}).SetupWithManager(ctx, e, many)
		}},
		{"MachineDeploymentTopology", func(ctx context.Context, e *env) error {
			return (&topologymachinedeployment.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader()}).SetupWithManager(ctx, e, many)
		}},
		{"MachineSetTopology", func(ctx context.Context, e *env) error {
			return (&topologymachineset.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader()}).SetupWithManager(ctx, e, many)
		}},
		{"ExtensionConfig", func(_ context.Context, e *env) error {
			return setupExtensionConfig(e, common.runtime, secretMetadata)
		}},
		{"Cluster", func(ctx context.Context, e *env) error {
			return (&cluster.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader(), ClusterCache: e.clusters, RemoteConnectionGracePeriod: remoteConnectionGracePeriod}).SetupWithManager(ctx, e, many)
		}},
		{"Machine", func(ctx context.Context, e *env) error {
			return (&machine.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader(), ClusterCache: e.clusters, RuntimeClient: rc, RemoteConditionsGracePeriod: remoteConditionsGracePeriod}).SetupWithManager(ctx, e, many)
		}},
		{"MachineSet", func(ctx context.Context, e *env) error {
			return (&machineset.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader(), ClusterCache: e.clusters, PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll)}).SetupWithManager(ctx, e, throttled(many))
		}},
		{"MachineDeployment", func(ctx context.Context, e *env) error {
			return (&machinedeployment.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader(), RuntimeClient: rc}).SetupWithManager(ctx, e, many)
		}},
		{"MachinePool", func(ctx context.Context, e *env) error {
			return (&machinepool.Reconciler{Client: e.GetClient(), APIReader: e.GetAPIReader(), ClusterCache: e.clusters}).SetupWithManager(ctx, e, throttled(many))
		}},
		{"ClusterResourceSet", func(ctx context.Context, e *env) error {
			return (&clusterresourceset.Reconciler{Client: e.GetClient(), ClusterCache: e.clusters}).SetupWithManager(ctx, e, many, secretMetadata)
		}},
		{"ClusterResourceSetBinding", func(ctx context.Context, e *env) error {
			return (&clusterresourcesetbinding.Reconciler{Client: e.GetClient()}).SetupWithManager(ctx, e, many)
		}},
		{"MachineHealthCheck", func(ctx context.Context, e *env) error {
			return (&machinehealthcheck.Reconciler{Client: e.GetClient(), ClusterCache: e.clusters}).SetupWithManager(ctx, e, many)
		}},
	}
}

func coreWebhooks(common *shared) []step {
	return []step{{"webhooks", func(_ context.Context, e *env) error {
		return errors.Join(
			(&admission.ClusterClass{Client: e.GetClient()}).SetupWebhookWithManager(e),
			(&admission.Cluster{Client: e.GetClient(), ClusterCacheReader: e.clusters}).SetupWebhookWithManager(e),
			(&admission.Machine{}).SetupWebhookWithManager(e),
			(&admission.MachineSet{}).SetupWebhookWithManager(e),
			(&admission.MachineDeployment{}).SetupWebhookWithManager(e),
			(&admission.MachineDrainRule{}).SetupWebhookWithManager(e),
			(&admission.MachinePool{}).SetupWebhookWithManager(e),
			(&admission.ClusterResourceSet{}).SetupWebhookWithManager(e),
			(&admission.ClusterResourceSetBinding{}).SetupWebhookWithManager(e),
			(&admission.MachineHealthCheck{}).SetupWebhookWithManager(e),
			(&extensionConfigWebhook{catalog: common.runtime.Catalog}).setup(e),
			// Not from the cache, which would then hold all IPAddressClaims.
			(&admission.IPAddress{Client: e.GetAPIReader()}).SetupWebhookWithManager(e),
			(&admission.IPAddressClaim{}).SetupWebhookWithManager(e),
		)
	}}}
}

// coreMigrations are the kinds whose stored version the core provider looks after.
var coreMigrations = map[client.Object]crdmigrator.ByObjectConfig{
	&addonsv1.ClusterResourceSetBinding{}: {},
	&addonsv1.ClusterResourceSet{}:        {UseStatusForStorageVersionMigration: true},
	&clusterv1.Cluster{}:                  {UseStatusForStorageVersionMigration: true},
	&clusterv1.ClusterClass{}:             {UseStatusForStorageVersionMigration: true},
	&clusterv1.MachineDeployment{}:        {UseStatusForStorageVersionMigration: true},
	&clusterv1.MachineDrainRule{}:         {},
	&clusterv1.MachineHealthCheck{}:       {UseStatusForStorageVersionMigration: true},
	&clusterv1.MachinePool{}:              {UseStatusForStorageVersionMigration: true},
	&clusterv1.Machine{}:                  {UseStatusForStorageVersionMigration: true},
	&clusterv1.MachineSet{}:               {UseStatusForStorageVersionMigration: true},
	&ipamv1.IPAddress{}:                   {},
	&ipamv1.IPAddressClaim{}:              {UseStatusForStorageVersionMigration: true},
	&runtimev1.ExtensionConfig{}:          {UseStatusForStorageVersionMigration: true},
}

// migrate runs one at a time: it may patch many objects in a row.
func migrate(ctx context.Context, e *env, kinds map[client.Object]crdmigrator.ByObjectConfig) error {
	return (&crdmigrator.CRDMigrator{Client: e.GetClient(), APIReader: e.GetAPIReader(), Config: kinds}).
		SetupWithManager(ctx, e, controllerOptions(1))
}
