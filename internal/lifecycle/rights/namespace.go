package rights

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Enforced says whether the API server asks about the Clusters of a namespace that have no
// topology, which an administrator of Namespaces decides by a label. Nothing watches it,
// so the reader reads past the cache.
func Enforced(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, fmt.Errorf("read Namespace %s: %w", name, err)
	}
	return namespace.Labels[lifecyclev1.EnforcementLabel] == string(lifecyclev1.EnforcementAll), nil
}
