package program

import (
	"context"
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var watchFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "slipway_watch_failures_total",
	Help: "Lists and watches of the cache that failed, by type. While they fail, no change of any object of that type is seen.",
}, []string{"type"})

func init() { metrics.Registry.MustRegister(watchFailures) }

// WatchCollectors are the metrics of WatchFailed. They are registered already.
func WatchCollectors() []prometheus.Collector { return []prometheus.Collector{watchFailures} }

// CacheOptions returns the options of a cache of one namespace, or of all when it is empty,
// whose failures to list and watch are counted. Cluster-scoped objects are in it in any case.
func CacheOptions(namespace string) cache.Options {
	o := cache.Options{DefaultWatchErrorHandler: WatchFailed}
	if namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return o
}

// WatchFailed counts an error that a list or watch ended with, and logs it as client-go
// does. A watch that the API server closed, or whose resourceVersion expired, has not failed.
func WatchFailed(ctx context.Context, r *toolscache.Reflector, err error) {
	if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		watchFailures.WithLabelValues(r.TypeDescription()).Inc()
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}
