package up

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner of all that `slipway up` applies.
const fieldOwner = client.FieldOwner("slipway")

// apply brings one object to the server. An object of a namespaced kind without
// a namespace goes to Namespace.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	mapping, err := c.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s %s: the plane does not know this kind; check apiVersion and kind", object.GetKind(), object.GetName())
	}
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() == "" {
		object.SetNamespace(Namespace)
	}
	return retryWebhooks(ctx, func() error {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
		return nil
	})
}

// retryWebhooks repeats f while the server itself is not settled: webhooks that
// have not warmed up yet answer with an internal error or a conflict. A refusal
// of the input is returned at once.
func retryWebhooks(ctx context.Context, f func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		last = f()
		if apierrors.IsInternalError(last) || apierrors.IsConflict(last) || apierrors.IsServiceUnavailable(last) || apierrors.IsTooManyRequests(last) {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

// decode reads the YAML documents of an embedded file.
func decode(files fs.FS, name string) ([]unstructured.Unstructured, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	objects, err := utilyaml.ToUnstructured(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return objects, nil
}
