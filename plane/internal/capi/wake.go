package capi

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// reconnectInterval is the time between two attempts to connect to a workload
// cluster. Upstream waits 30 s, which nearly always follows the first attempt,
// made before the control plane can possibly be up.
const reconnectInterval = time.Second

// reconnectQuickly sets the interval. The method is exported on upstream's
// type, though not in its interface; without it only time is lost.
func reconnectQuickly(c clustercache.ClusterCache) {
	if s, ok := c.(interface{ SetConnectionCreationRetryInterval(time.Duration) }); ok {
		s.SetConnectionCreationRetryInterval(reconnectInterval)
	}
}

// toRequests maps a Cluster to what a controller reconciles.
type toRequests = func(ctx context.Context, cluster client.Object) []ctrl.Request

// wakeSource makes a source of Cluster events for the controller that owns to.
type wakeSource func(to toRequests) source.Source

// wakeCache is a ClusterCache whose event sources fire on more occasions. Each
// upstream controller asks its ClusterCache for a source of events and reconciles
// on them; that is where further reasons to reconcile can be added without
// touching the controller.
type wakeCache struct {
	clustercache.ClusterCache
	sources map[string]wakeSource
}

func newWakeCache(c clustercache.ClusterCache) *wakeCache {
	return &wakeCache{ClusterCache: c, sources: map[string]wakeSource{}}
}

// on adds a source to the controller of that name. It must be called before
// the controller is set up.
func (c *wakeCache) on(controller string, s wakeSource) { c.sources[controller] = s }

// GetClusterSource implements clustercache.ClusterCache.
func (c *wakeCache) GetClusterSource(controller string, to toRequests, opts ...clustercache.GetClusterSourceOption) source.Source {
	upstream := c.ClusterCache.GetClusterSource(controller, to, opts...)
	more, ok := c.sources[controller]
	if !ok {
		return upstream
	}
	return both{upstream, more(to)}
}

// both is two sources as one.
type both [2]source.Source

// Start implements source.Source.
func (b both) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	for _, s := range b {
		if err := s.Start(ctx, queue); err != nil {
			return err
		}
	}
	return nil
}
