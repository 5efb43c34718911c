package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/bootstrap"
	"k8s.io/kubernetes/pkg/controller/certificates/cleaner"
	"k8s.io/kubernetes/pkg/controller/certificates/signer"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

const (
	resync = 12 * time.Hour

	// certificateLife is the life of client certificates signed for agents;
	// a request may ask for less. Agents renew well before it ends.
	certificateLife = 90 * 24 * time.Hour

	gcSyncPeriod = 30 * time.Second

	// Requests per second of each controller. Deleting a namespace takes two for
	// every kind there is; at client-go's default of 5 that is half a minute.
	requestRate, requestBurst = 100, 200
)

// controller is one loop. setup builds it, adding its informers to the
// factories of env; the function it returns runs it until ctx ends.
type controller struct {
	// account is the service account in kube-system it acts as.
	account string
	setup   func(ctx context.Context, env *environment) (run func(context.Context), err error)
	// ready, when set, tells whether its first round of work is done.
	ready func(env *environment) error
}

// environment is what a controller is built from: clients under its own name.
type environment struct {
	opts      ControllerOptions
	config    *rest.Config
	client    kubernetes.Interface
	metadata  metadata.Interface
	informers informers.SharedInformerFactory
	metaInfs  metadatainformer.SharedInformerFactory
	started   chan struct{}
}

var controllers = []controller{
	{account: "generic-garbage-collector", setup: setupGarbageCollector},
	{account: "namespace-controller", setup: setupNamespace},
	{account: "certificate-controller", setup: setupCertificates},
	{account: "token-cleaner", setup: setupTokenCleaner},
	{account: "clusterrole-aggregation-controller", setup: setupClusterRoleAggregation, ready: rolesAggregated},
	// It may delete objects of all kinds.
	{account: "generic-garbage-collector", setup: setupEventCleaner},
}

func newEnvironment(opts ControllerOptions, config *rest.Config) (*environment, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = requestRate, requestBurst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("metadata client: %w", err)
	}
	return &environment{
		opts:      opts,
		config:    config,
		client:    client,
		metadata:  meta,
		informers: informers.NewSharedInformerFactory(client, resync),
		metaInfs:  metadatainformer.NewSharedInformerFactory(meta, resync),
		started:   make(chan struct{}),
	}, nil
}

// start launches the informers the controller asked for.
func (e *environment) start(ctx context.Context) {
	e.informers.StartWithContext(ctx)
	e.metaInfs.Start(ctx.Done())
	close(e.started)
}

func setupGarbageCollector(ctx context.Context, env *environment) (func(context.Context), error) {
	discovery := env.client.Discovery()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery))
	gc, err := garbagecollector.NewGarbageCollector(ctx, env.client, env.metadata, mapper,
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(env.informers, env.metaInfs), env.started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		// Sync follows CRDs that come and go.
		go gc.Sync(ctx, discovery, gcSyncPeriod)
		gc.Run(ctx, 5, gcSyncPeriod)
	}, nil
}

func setupNamespace(ctx context.Context, env *environment) (func(context.Context), error) {
	c := namespace.NewNamespaceController(ctx, env.client, env.metadata,
		env.client.Discovery().ServerPreferredNamespacedResources,
		env.informers.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, 3) }, nil
}

// setupCertificates signs approved requests for the API server's client
// certificates and removes old requests. Approval is the Host controller's.
func setupCertificates(ctx context.Context, env *environment) (func(context.Context), error) {
	requests := env.informers.Certificates().V1().CertificateSigningRequests()
	signing, err := signer.NewKubeAPIServerClientCSRSigningController(ctx, env.client, requests,
		env.opts.SigningCertFile, env.opts.SigningKeyFile, certificateLife)
	if err != nil {
		return nil, err
	}
	cleaning := cleaner.NewCSRCleanerController(env.client.CertificatesV1().CertificateSigningRequests(), requests)
	return func(ctx context.Context) {
		go cleaning.Run(ctx, 1)
		signing.Run(ctx, 2)
	}, nil
}

func setupTokenCleaner(_ context.Context, env *environment) (func(context.Context), error) {
	// The role of token-cleaner reads Secrets of kube-system only.
	env.informers = informers.NewSharedInformerFactoryWithOptions(env.client, resync, informers.WithNamespace("kube-system"))
	c, err := bootstrap.NewTokenCleaner(env.client, env.informers.Core().V1().Secrets(), bootstrap.DefaultTokenCleanerOptions())
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func setupClusterRoleAggregation(_ context.Context, env *environment) (func(context.Context), error) {
	c := clusterroleaggregation.NewClusterRoleAggregation(env.informers.Rbac().V1().ClusterRoles(), env.client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, 2) }, nil
}
