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

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
