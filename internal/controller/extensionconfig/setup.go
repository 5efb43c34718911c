package extensionconfig

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/slipway-dev/slipway/internal/reconciler"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// SetupWithManager adds the controller and the warm-up of the registry. With a
// cache of the metadata of Secrets, a Secret that changes is injected at once;
// without one (nil) at the next discovery, of which a failing call makes one.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, secrets cache.Cache, options controller.Options) error {
	r.failures = workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry)
	// Writes of the status come back as events, which are not worth a discovery.
	relevant := predicate.And(
		predicate.NewPredicateFuncs(r.selected),
		predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}),
	)
	b := ctrl.NewControllerManagedBy(mgr).
		Named(strings.ToLower(r.Kind.Name)).
		For(r.Kind.New(), builder.WithPredicates(relevant)).
		WatchesRawSource(source.Channel(r.Runtime.changed, &handler.EnqueueRequestForObject{})).
		WithOptions(options)
	if secrets != nil {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		b = b.WatchesRawSource(source.Kind(secrets, secret, handler.TypedEnqueueRequestsFromMapFunc(r.injectedInto),
			predicate.TypedResourceVersionChangedPredicate[*metav1.PartialObjectMetadata]{}))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up the %s controller: %w", r.Kind.Name, err)
	}
	return mgr.Add(warmUp{r})
}

// selected tells whether the object is for this manager.
func (r *Reconciler) selected(o client.Object) bool {
	return r.WatchFilter == "" || o.GetLabels()[clusterv1.WatchLabel] == r.WatchFilter
}

// injectedInto maps a Secret to the objects whose CA it holds.
func (r *Reconciler) injectedInto(ctx context.Context, secret *metav1.PartialObjectMetadata) []reconcile.Request {
	return reconciler.Requests(ctx, r.Client, r.Kind.NewList(), func(o client.Object) bool {
		return o.GetAnnotations()[runtimev1.InjectCAFromSecretAnnotation] == secret.Namespace+"/"+secret.Name
	})
}
