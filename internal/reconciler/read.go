package reconciler

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capilabels "sigs.k8s.io/cluster-api/util/labels"
)

// ClusterRetry is when to look again for the Cluster of an object that was moved or
// restored. No event tells of a Cluster that comes unpaused.
const ClusterRetry = 5 * time.Second

// Read reads the object of a request. It returns false when the object is gone or, by the
// label cluster.x-k8s.io/watch-filter, another manager's: what is remembered of it may be
// forgotten. Predicates don't suffice for the label: what others watch requests an object,
// too, by way of what it refers to. An empty watchFilter takes all objects.
func Read(ctx context.Context, c client.Reader, req ctrl.Request, o client.Object, watchFilter string) (bool, error) {
	if err := c.Get(ctx, req.NamespacedName, o); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return watchFilter == "" || capilabels.HasWatchLabel(o, watchFilter), nil
}

// Cluster returns the Cluster of that name; nil while there is none, and for an empty name.
func Cluster(ctx context.Context, c client.Reader, namespace, name string) (*clusterv1.Cluster, error) {
	if name == "" {
		return nil, nil
	}
	cluster := &clusterv1.Cluster{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get Cluster %s: %w", name, err)
	}
	return cluster, nil
}

// Requests lists objects and returns requests for those that keep takes; without keep for all. The
// objects are the cache's own, so keep must not change them. What cannot be listed is logged and
// requests nothing: nobody could repeat what maps an event to requests.
func Requests[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, keep func(O) bool, options ...client.ListOption) []ctrl.Request {
	if err := c.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List objects to reconcile", "list", fmt.Sprintf("%T", list))
		return nil
	}
	var requests []ctrl.Request
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(O); ok && (keep == nil || keep(o)) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		}
		return nil
	})
	return requests
}
