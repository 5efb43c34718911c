package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;patch
// +kubebuilder:rbac:groups=lifecycle.slipway.dev,resources=lifecyclepolicies,verbs=list;unguard

// guardReleaseDelay is how long DeletionGuardLabel stays after the last policy that needs it.
// A policy that the webhook admitted just before is stored by then: the API server ends a
// request after one minute. The rest is for clocks of replicas that differ.
const guardReleaseDelay = 5 * time.Minute

// HoldsDeletions reports whether a policy may block the deletion of a Cluster, one that is
// there or one that comes later.
func HoldsDeletions(p *lifecyclev1.LifecyclePolicy) bool {
	return p.Spec.Mode != lifecyclev1.ModeAudit && len(p.Steps(lifecyclev1.BeforeClusterDelete)) > 0
}

// Guard sets DeletionGuardLabel on Namespaces. The API server calls the webhook for the
// deletion of labelled Namespaces only, so that it stops nobody else while no replica answers.
//
// A policy is never stored without the label. The webhook of policies sets it before it admits
// one; NamespaceReconciler sets it for a policy that was stored without the webhook, and
// removes it in two writes, guardReleaseDelay apart: it records since when no policy needs the
// label, then reads the policies again and removes the label if the Namespace has not changed
// since. A policy that is admitted in between either finds the record and deletes it, which
// changes the Namespace, or was admitted before the record, and is read.
type Guard struct {
	Client client.Client
	// APIReader reads live: a cached Namespace could still have the label.
	APIReader client.Reader
}

// Set labels a Namespace, unless it is labelled and to stay so.
func (g *Guard) Set(ctx context.Context, name string) error {
	namespace, err := g.read(ctx, name)
	if err != nil {
		return err
	}
	_, labelled := namespace.Labels[lifecyclev1.DeletionGuardLabel]
	_, unused := namespace.Annotations[lifecyclev1.DeletionGuardUnusedAnnotation]
	if labelled && !unused {
		return nil
	}
	// The patch has both, whatever was read: the label may have been removed since.
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""},"annotations":{%q:null}}}`, lifecyclev1.DeletionGuardLabel, lifecyclev1.DeletionGuardUnusedAnnotation)
	if err := g.Client.Patch(ctx, namespace, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set label %s, which guards the deletion of Namespace %s: %w", lifecyclev1.DeletionGuardLabel, name, err)
	}
	return nil
}

func (g *Guard) read(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := g.APIReader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("read Namespace %s: %w", name, err)
	}
	return namespace, nil
}

// NamespaceReconciler keeps DeletionGuardLabel on the Namespaces that have a policy which
// may block the deletion of Clusters.
type NamespaceReconciler struct {
	Guard
	// Namespace is the only one whose policies count; empty for all.
	Namespace string
	Clock     clock.PassiveClock
}

// sweep is the request to reconcile every Namespace that has the label. It finds those whose
// policies were deleted while no leader ran, or were refused after the webhook had set the label.
var sweep = reconcile.Request{}

// SetupWithManager watches LifecyclePolicies. Namespaces are not watched: those with the label
// are listed at the start and every checkInterval.
func (r *NamespaceReconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	first := sweep
	if r.Namespace != "" {
		// The engine may have no right to list Namespaces.
		first.Name = r.Namespace
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("lifecyclenamespace").
		WithOptions(options).
		Watches(&lifecyclev1.LifecyclePolicy{}, handler.EnqueueRequestsFromMapFunc(namespaceOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(first)
			return nil
		})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of Namespaces: %w", err)
	}
	return nil
}

func namespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
}

// Reconcile sets the label of a Namespace, or removes it, and does so for all of them on a sweep.
func (r *NamespaceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req == sweep {
		return ctrl.Result{RequeueAfter: checkInterval}, r.sweep(ctx)
	}
	wait, err := r.reconcile(ctx, req.Name)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if r.Namespace != "" && wait == 0 {
		wait = checkInterval
	}
	return ctrl.Result{RequeueAfter: wait}, client.IgnoreNotFound(err)
}

func (r *NamespaceReconciler) sweep(ctx context.Context) error {
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.APIReader.List(ctx, namespaces, client.HasLabels{lifecyclev1.DeletionGuardLabel}); err != nil {
		return fmt.Errorf("list Namespaces with label %s: %w", lifecyclev1.DeletionGuardLabel, err)
	}
	var errs []error
	for i := range namespaces.Items {
		_, err := r.reconcile(ctx, namespaces.Items[i].Name)
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// reconcile returns when to poll again; zero for not before a policy changes.
func (r *NamespaceReconciler) reconcile(ctx context.Context, name string) (time.Duration, error) {
	// The Namespace is read before its policies: see Guard.
	namespace, err := r.read(ctx, name)
	if err != nil || !namespace.DeletionTimestamp.IsZero() {
		return 0, err
	}
	policies := &lifecyclev1.LifecyclePolicyList{}
	if err := r.APIReader.List(ctx, policies, client.InNamespace(name)); err != nil {
		return 0, fmt.Errorf("list LifecyclePolicies: %w", err)
	}
	for i := range policies.Items {
		if HoldsDeletions(&policies.Items[i]) {
			return 0, r.Set(ctx, name)
		}
	}
	if _, labelled := namespace.Labels[lifecyclev1.DeletionGuardLabel]; !labelled {
		return 0, nil
	}
	return r.release(ctx, namespace)
}

// release records that no policy needs the label, or removes it if that was long enough ago. It
// writes the Namespace as it was read, or fails with a conflict.
func (r *NamespaceReconciler) release(ctx context.Context, namespace *metav1.PartialObjectMetadata) (time.Duration, error) {
	before, now := namespace.DeepCopy(), r.Clock.Now()
	since, err := time.Parse(time.RFC3339, namespace.Annotations[lifecyclev1.DeletionGuardUnusedAnnotation])
	wait := since.Add(guardReleaseDelay).Sub(now)
	switch {
	case err != nil || wait > 2*guardReleaseDelay:
		// There is no record, or none of this engine.
		metav1.SetMetaDataAnnotation(&namespace.ObjectMeta, lifecyclev1.DeletionGuardUnusedAnnotation, now.UTC().Format(time.RFC3339))
		wait = guardReleaseDelay
	case wait > 0:
		return wait, nil
	default:
		delete(namespace.Labels, lifecyclev1.DeletionGuardLabel)
		delete(namespace.Annotations, lifecyclev1.DeletionGuardUnusedAnnotation)
		wait = 0
	}
	err = r.Client.Patch(ctx, namespace, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return 0, fmt.Errorf("remove label %s of Namespace %s: %w", lifecyclev1.DeletionGuardLabel, namespace.Name, err)
	}
	return wait, nil
}
