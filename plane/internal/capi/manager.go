package capi

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/slipway-dev/slipway/internal/throttle"
	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Figures of upstream's mains.
const (
	remoteConnectionGracePeriod = 50 * time.Second
	remoteConditionsGracePeriod = 5 * time.Minute
)

const (
	// Upstream's 100 and 200 requests per second to the management cluster, and 20
	// and 30 to a workload cluster, stretch a pool of 1,000 over minutes. The API
	// servers defend themselves (priority and fairness), and here the one for
	// management even is the same process.
	restQPS, restBurst       = 1000, 2000
	clusterQPS, clusterBurst = 100, 200

	// syncPeriod is after how long objects are reconciled although nothing changed.
	// Upstream's 10 minutes are a safety net; with 5,000 machines they are 8 reconciles
	// of a Machine a second, for ever.
	syncPeriod = time.Hour

	// concurrency is the number of objects of a kind reconciled at a time.
	// Upstream's 10 to 100 are meant for thousands of clusters.
	concurrency = 10

	// stopTimeout is what a manager's reconciles under way get to finish.
	stopTimeout = 2 * time.Second
)

// upstream is what a provider's `setup` package of cluster-api offers.
type upstream struct {
	cacheOptions         func(s *runtime.Scheme, name, namespace string, sync time.Duration) cache.Options
	clientOptions        func() client.Options
	clusterCacheOptions  func() clustercache.CacheOptions
	clusterClientOptions func(name string, qps float32, burst int) clustercache.ClientOptions
	secretClient         func(ctrl.Manager) (client.Client, error)
}

// env is what the steps of a provider work with.
type env struct {
	ctrl.Manager
	clusters clustercache.ClusterCache
	// secrets reads cached Secrets that belong to a cluster.
	secrets client.Client
	// wake is the provider's table of additional event sources.
	wake *wakeCache
}

// step sets up one controller or webhook.
type step struct {
	name string
	run  func(ctx context.Context, e *env) error
}

func runSteps(ctx context.Context, e *env, steps []step) error {
	for _, s := range steps {
		if err := s.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// controllerOptions are those of every upstream controller. Names repeat over
// the managers of one process, which is what the validation would refuse.
func controllerOptions(concurrency int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: concurrency, SkipNameValidation: ptr.To(true)}
}

// throttled are the options of a controller whose reconciles look at every machine of
// a set.
func throttled(o controller.Options) controller.Options {
	o.NewQueue = throttle.NewQueue
	return o
}

// managerOptions are those of upstream's mains, less leader election, metrics
// and health listeners: the process has one of each, or none.
func managerOptions(s *runtime.Scheme, hooks webhook.Server) ctrl.Options {
	return ctrl.Options{
		Scheme: s,
		Controller: config.Controller{
			UsePriorityQueue: ptr.To(feature.Gates.Enabled(feature.PriorityQueue)),
			// Upstream's two minutes end the manager, and with it the plane, on a machine that is only slow.
			CacheSyncTimeout:   component.DefaultReadyTimeout,
			SkipNameValidation: ptr.To(true),
		},
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		WebhookServer:           hooks,
		GracefulShutdownTimeout: ptr.To(stopTimeout),
	}
}

func restConfig(base *rest.Config, name string) *rest.Config {
	c := rest.CopyConfig(base)
	c.QPS, c.Burst = restQPS, restBurst
	c.UserAgent = remote.DefaultClusterAPIUserAgent(name)
	countRequests(c, name)
	c.WarningHandler = apiwarnings.DefaultHandler(klog.Background().WithName("api-server-warning"))
	return c
}

// newUpstreamEnv builds the manager of an upstream provider, with the options
// of its `setup` package unchanged.
func newUpstreamEnv(ctx context.Context, base *rest.Config, name string, s *runtime.Scheme, u upstream, hooks webhook.Server) (*env, error) {
	options := managerOptions(s, hooks)
	options.Cache = u.cacheOptions(s, name, "", syncPeriod)
	options.Client = u.clientOptions()
	mgr, err := ctrl.NewManager(restConfig(base, name), options)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	secrets, err := u.secretClient(mgr)
	if err != nil {
		return nil, fmt.Errorf("client for secrets: %w", err)
	}
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: secrets,
		Cache:        u.clusterCacheOptions(),
		Client:       u.clusterClientOptions(name, clusterQPS, clusterBurst),
	}, controllerOptions(concurrency))
	if err != nil {
		return nil, fmt.Errorf("ClusterCache: %w", err)
	}
	reconnectQuickly(clusters)
	wake := newWakeCache(clusters)
	return &env{Manager: mgr, clusters: wake, secrets: secrets, wake: wake}, nil
}
