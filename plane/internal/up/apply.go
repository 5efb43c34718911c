package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/answer"
)

// fieldOwner of all that `slipway up` applies.
const fieldOwner = client.FieldOwner("slipway")

// ChangedByOthersError says that an object was not applied, since somebody else has
// changed what would be written.
type ChangedByOthersError struct {
	Object string
	// Fields that differ, each with who changed it where the server knows; empty for
	// fields that were removed, or whose present owner is nobody.
	Fields []string
}

func (e *ChangedByOthersError) Error() string {
	if len(e.Fields) == 0 {
		return e.Object + " has lost fields that were applied before"
	}
	return e.Object + " was changed: " + strings.Join(e.Fields, "; ")
}

// applier brings objects to the server by server-side apply, without changing what
// others have changed since.
type applier struct {
	client client.Client
	// applied remembers what was applied before.
	applied *appliedObjects
	// force takes back what others have changed.
	force bool
}

// apply brings one object to the server. An object of a namespaced kind without a
// namespace goes to Namespace. It returns a *ChangedByOthersError when it left the object
// alone, and writes nothing when all is there already.
func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	object, err := a.placed(object)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s %s", object.GetKind(), client.ObjectKeyFromObject(object))
	return retryWebhooks(ctx, func() error {
		needed := true
		if !a.force {
			if needed, err = a.needed(ctx, object, name); err != nil {
				return err
			}
		}
		if needed {
			options := []client.ApplyOption{fieldOwner}
			if a.force {
				options = append(options, client.ForceOwnership)
			}
			if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...); err != nil {
				return a.explain(name, err)
			}
		}
		return a.applied.note(name, object)
	})
}

// placed is the object in its namespace.
func (a *applier) placed(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object = object.DeepCopy()
	mapping, err := a.client.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%s %s: the plane does not know this kind; check apiVersion and kind", object.GetKind(), object.GetName())
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() == "" {
		object.SetNamespace(Namespace)
	}
	return object, nil
}

// needed reports whether applying the object would change what is there. The server
// tells who changed fields that have another value now; a field that was removed has no
// owner, so there it counts that the very same object had been applied before.
func (a *applier) needed(ctx context.Context, object *unstructured.Unstructured, name string) (bool, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	if err := a.client.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	trial := object.DeepCopy()
	if err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(trial), fieldOwner, client.DryRunAll); err != nil {
		return false, a.explain(name, err)
	}
	if equality.Semantic.DeepEqual(content(live), content(trial)) {
		return false, nil
	}
	if a.applied.before(name, object) {
		return false, &ChangedByOthersError{Object: name}
	}
	return true, nil
}

// explain makes a *ChangedByOthersError of the server's word for it.
func (a *applier) explain(name string, err error) error {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Details == nil {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	changed := &ChangedByOthersError{Object: name}
	for _, cause := range answer.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			changed.Fields = append(changed.Fields, cause.Field+": "+cause.Message)
		}
	}
	if len(changed.Fields) == 0 {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	return changed
}

// content is an object without what the server counts and notes by itself.
func content(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	delete(o.Object, "status")
	return o.Object
}

// retryWebhooks repeats f while the server itself is not settled: webhooks that
// have not warmed up yet answer with an internal error or a conflict. A refusal
// of the input is returned at once.
func retryWebhooks(ctx context.Context, f func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		last = f()
		if apierrors.IsInternalError(last) || apierrors.IsConflict(last) || answer.Away(last) {
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
