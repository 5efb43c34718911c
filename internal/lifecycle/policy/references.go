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
	"github.com/slipway-dev/slipway/internal/lifecycle/rights"
)

// findRights looks for what the engine may not do that the steps take. Without it nothing
// they refer to can be looked for either.
func (r *Reconciler) findRights(ctx context.Context, s *scope) error {
	if s.fault != nil {
		return nil
	}
	missing, err := r.Rights.Missing(ctx, rights.Needs(s.policy))
	if missing != nil {
		s.fault = &fault{lifecyclev1.RightsMissingReason, missing.Error()}
	}
	return err
}

// reference is a ConfigMap or Secret that a step needs.
type reference struct{ kind, name string }

// findReferences looks for what the steps refer to. It reads metadata only: contents
// are the executors' matter.
func (r *Reconciler) findReferences(ctx context.Context, s *scope) error {
	if s.fault != nil {
		return nil
	}
	var missing []string
	for _, ref := range references(s.policy) {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.kind))
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.policy.Namespace, Name: ref.name}, object)
		if apierrors.IsNotFound(err) {
			missing = append(missing, ref.kind+" "+ref.name)
		} else if err != nil {
			return fmt.Errorf("get %s %s: %w", ref.kind, ref.name, err)
		}
	}
	if len(missing) > 0 {
		s.fault = &fault{lifecyclev1.ReferenceNotFoundReason, fmt.Sprintf(
			"missing in namespace %s: %s; create it, or correct the policy", s.policy.Namespace, strings.Join(missing, ", "))}
	}
	return nil
}

// references returns what the steps of a policy refer to, each once.
func references(policy *lifecyclev1.LifecyclePolicy) []reference {
	var found []reference
	add := func(kind, name string) {
		if ref := (reference{kind, name}); !slices.Contains(found, ref) {
			found = append(found, ref)
		}
	}
	for i := range policy.Spec.Hooks {
		for j := range policy.Spec.Hooks[i].Steps {
			s := &policy.Spec.Hooks[i].Steps[j]
			if s.Apply != nil {
				for _, source := range s.Apply.Sources {
					add(source.Kind, source.Name)
				}
			}
			if s.Webhook != nil {
				add("Secret", s.Webhook.SecretName)
			}
		}
	}
	return found
}
