package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// findRights looks for what the engine may not do that the steps take. Without it nothing
// they refer to can be looked for either.
func (r *Reconciler) findRights(ctx context.Context, s *scope) error {
	if s.fault != nil {
		return nil
	}
	missing, err := r.Rights.Missing(ctx, step.Needed(s.policy).Engine)
	if missing != nil {
		s.fault = &fault{lifecyclev1.RightsMissingReason, missing.Error()}
	}
	return err
}

// findReferences looks for what the steps refer to. It reads metadata only: contents
// are the executors' matter.
func (r *Reconciler) findReferences(ctx context.Context, s *scope) error {
	if s.fault != nil {
		return nil
	}
	var missing []string
	for _, ref := range step.Needed(s.policy).Reads {
		name := ref.Kind + " " + ref.Name
		if slices.Contains(missing, name) {
			continue
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.policy.Namespace, Name: ref.Name}, object)
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
		} else if err != nil {
			return fmt.Errorf("get %s: %w", name, err)
		}
	}
	if len(missing) > 0 {
		s.fault = &fault{lifecyclev1.ReferenceNotFoundReason, fmt.Sprintf(
			"missing in namespace %s: %s; create it, or correct the policy", s.policy.Namespace, strings.Join(missing, ", "))}
	}
	return nil
}
