package manifests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// waitEstablished returns when every CRD among objs is served.
func waitEstablished(ctx context.Context, config *rest.Config, objs []Object) error {
	pending := map[string]bool{}
	for i := range objs {
		if objs[i].isCRD() {
			pending[objs[i].Name] = true
		}
	}
	if len(pending) == 0 {
		return nil
	}
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for CRDs: %w", err)
	}
	crds := client.CustomResourceDefinitions()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return crds.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return crds.Watch(ctx, o)
		},
	}
	if err := nudge(ctx, crds, pending); err != nil {
		return err
	}
	_, err = watchtools.UntilWithSync(ctx, lw, &apiextensionsv1.CustomResourceDefinition{}, nil, func(e watch.Event) (bool, error) {
		if crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition); ok && established(crd) {
			delete(pending, crd.Name)
		}
		return len(pending) == 0, nil
	})
	if err != nil {
		names := slices.Sorted(maps.Keys(pending))
		return fmt.Errorf("waiting for the API server to serve %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

// nudgeAnnotation holds the resourceVersion at which a CRD was found stuck.
const nudgeAnnotation = "slipway.dev/nudged-at"

// nudge changes the CRDs that would wait for ever. An API server that was killed
// between accepting the names of a CRD and establishing it does not go on with that
// after its start: it establishes upon an update only.
func nudge(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, pending map[string]bool) error {
	list, err := crds.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	for i := range list.Items {
		crd := &list.Items[i]
		if !pending[crd.Name] || !stuck(crd) {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, nudgeAnnotation, crd.ResourceVersion)
		if _, err := crds.Patch(ctx, crd.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
			return fmt.Errorf("nudge CRD %s: %w", crd.Name, err)
		}
	}
	return nil
}

// stuck tells whether the names of a CRD were accepted, but it is not served. In
// passing this is so for each new CRD, which a nudge does not harm.
func stuck(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionTrue {
			return !established(crd)
		}
	}
	return false
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
