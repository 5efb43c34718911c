package extension

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// WithMatch calls the handler only for requests that match; others are answered with an empty
// success. Whoever calls, the server decides: Cluster API's manager knows a namespaceSelector
// only, and ignores the annotations of an ExtensionConfig by which a plane of slipway selects.
func WithMatch(match func(ctx context.Context, request runtime.Object) bool) HandlerOption {
	return func(h *handler) { h.matches = append(h.matches, match) }
}

// WithObjectSelector calls the handler only for requests about an object with such labels: the
// Cluster of a lifecycle hook, or the Machine or MachineSet of an update in place. Handle refuses it
// for a hook whose requests have no such object, such as GeneratePatches.
func WithObjectSelector(selector labels.Selector) HandlerOption {
	return func(h *handler) {
		h.selects = true
		h.matches = append(h.matches, func(_ context.Context, request runtime.Object) bool {
			object := objectIn(request)
			return object != nil && selector.Matches(labels.Set(object.GetLabels()))
		})
	}
}

// objectPaths lead to the object that a request is about.
var objectPaths = [][]string{{"Cluster"}, {"Desired", "Machine"}, {"Desired", "MachineSet"}}

func objectIn(request runtime.Object) metav1.Object {
	for _, path := range objectPaths {
		v := reflect.ValueOf(request).Elem()
		for _, name := range path {
			if v.Kind() != reflect.Struct {
				break
			}
			v = v.FieldByName(name)
		}
		if v.IsValid() && v.CanAddr() {
			if object, ok := v.Addr().Interface().(metav1.Object); ok {
				return object
			}
		}
	}
	return nil
}

// matching wraps a handler's function with its matches.
func (h *handler) matching(next Func) (Func, error) {
	if h.selects && objectIn(h.definition.NewRequest()) == nil {
		return nil, fmt.Errorf("requests of hook %s have no object with labels; use WithMatch", h.definition.Name.Hook)
	}
	if len(h.matches) == 0 {
		return next, nil
	}
	return func(ctx context.Context, call *Call) (hooksv1.ResponseObject, error) {
		for _, match := range h.matches {
			if !match(ctx, call.Request) {
				return nil, nil //nolint:nilnil // an empty success
			}
		}
		return next(ctx, call)
	}, nil
}
