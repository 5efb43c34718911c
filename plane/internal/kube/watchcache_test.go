package kube

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

var errCached = errors.New("a watch cache was asked for")

// caching is upstream's getter as far as it matters.
type caching struct{}

func (caching) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{Decorator: func(
		*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
		storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return nil, nil, errCached
	}}, nil
}

// TestWatchCaches are there for stored versions only.
func TestWatchCaches(t *testing.T) {
	stored := schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}
	old := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	getter := storedVersions{caching{}, func(kind schema.GroupVersionKind) bool { return kind == old }}
	for kind, want := range map[schema.GroupVersionKind]bool{stored: true, old: false} {
		options, err := getter.GetRESTOptions(schema.GroupResource{Group: "example.com", Resource: "widgets"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		newObject := func() runtime.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			return u
		}
		// No storage is of that type, which ends it before anything is connected.
		config := &storagebackend.ConfigForResource{Config: storagebackend.Config{Type: "none"}}
		_, _, err = options.Decorator(config, "widgets", nil, newObject, newObject, nil, nil, nil)
		if cached := errors.Is(err, errCached); err == nil || cached != want {
			t.Errorf("%s: cached %t (%v), want %t", kind.Version, cached, err, want)
		}
	}
}
