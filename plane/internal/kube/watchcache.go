package kube

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// storedVersions keeps watch caches of custom resources for the versions that are
// stored. Upstream keeps one for each version that is served (apiextensions-apiserver,
// crdHandler.getOrCreateServingInfoFor): every write is converted for it by a webhook,
// one after the other, whether or not anybody reads that version. In a plane of
// thousands of machines that took a fifth of the CPU time and fell minutes behind.
// Requests for the other versions are answered from etcd.
type storedVersions struct {
	generic.RESTOptionsGetter
	converted func(schema.GroupVersionKind) bool
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s storedVersions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	cached := options.Decorator
	options.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error),
		newObject, newList func() runtime.Object, attributes storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		decorate := cached
		if s.converted(newObject().GetObjectKind().GroupVersionKind()) {
			decorate = generic.UndecoratedStorage
		}
		return decorate(config, prefix, key, newObject, newList, attributes, trigger, indexers)
	}
	return options, nil
}
