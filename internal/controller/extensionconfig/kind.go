package extensionconfig

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// Object registers an extension.
type Object interface {
	client.Object
	conditions.Setter
}

// Kind is what the reconciler knows about a kind of Object.
type Kind struct {
	// Name is the kind, such as "ExtensionConfig".
	Name string
	// New returns an empty object.
	New func() Object
	// NewList returns an empty list; Items returns what is in one.
	NewList func() client.ObjectList
	Items   func(client.ObjectList) []Object
	// Entry returns the object as the registry takes it. With an error, which names
	// the selector that cannot be read, the entry selects all objects. It may share
	// memory with the object.
	Entry func(Object) (registry.Entry, error)
	// SetCABundle and SetHandlers change the object.
	SetCABundle func(Object, []byte)
	SetHandlers func(Object, []runtimev1.ExtensionHandler)
	// Mirror, when set, writes the Discovered condition where older readers expect it.
	Mirror func(Object, metav1.Condition)
}

// Upstream is Cluster API's ExtensionConfig.
var Upstream = Kind{
	Name:    "ExtensionConfig",
	New:     func() Object { return &runtimev1.ExtensionConfig{} },
	NewList: func() client.ObjectList { return &runtimev1.ExtensionConfigList{} },
	Items: func(list client.ObjectList) []Object {
		return pointers[runtimev1.ExtensionConfig](list.(*runtimev1.ExtensionConfigList).Items)
	},
	Entry: func(o Object) (registry.Entry, error) {
		return registry.FromExtensionConfig(o.(*runtimev1.ExtensionConfig))
	},
	SetCABundle: func(o Object, ca []byte) { o.(*runtimev1.ExtensionConfig).Spec.ClientConfig.CABundle = ca },
	SetHandlers: func(o Object, handlers []runtimev1.ExtensionHandler) {
		o.(*runtimev1.ExtensionConfig).Status.Handlers = handlers
	},
	Mirror: mirrorV1Beta1,
}

// Host is our HostExtensionConfig.
var Host = Kind{
	Name:    "HostExtensionConfig",
	New:     func() Object { return &runtimev1alpha1.HostExtensionConfig{} },
	NewList: func() client.ObjectList { return &runtimev1alpha1.HostExtensionConfigList{} },
	Items: func(list client.ObjectList) []Object {
		return pointers[runtimev1alpha1.HostExtensionConfig](list.(*runtimev1alpha1.HostExtensionConfigList).Items)
	},
	Entry: func(o Object) (registry.Entry, error) {
		return FromHostExtensionConfig(o.(*runtimev1alpha1.HostExtensionConfig))
	},
	SetCABundle: func(o Object, ca []byte) { o.(*runtimev1alpha1.HostExtensionConfig).Spec.ClientConfig.CABundle = ca },
	SetHandlers: func(o Object, handlers []runtimev1.ExtensionHandler) {
		o.(*runtimev1alpha1.HostExtensionConfig).Status.Handlers = handlers
	},
}

func pointers[T any, P interface {
	*T
	Object
}](items []T) []Object {
	objects := make([]Object, len(items))
	for i := range items {
		objects[i] = P(&items[i])
	}
	return objects
}

// FromHostExtensionConfig returns the entry of our kind. With an error, which names
// the field that cannot be read, the entry selects every object.
func FromHostExtensionConfig(o *runtimev1alpha1.HostExtensionConfig) (registry.Entry, error) {
	entry := registry.Entry{
		Kind: "HostExtensionConfig", Name: o.Name, ResourceVersion: o.ResourceVersion,
		ClientConfig: o.Spec.ClientConfig, Settings: o.Spec.Settings, Handlers: o.Status.Handlers,
	}
	namespaces, err := registry.Selector(o.Spec.NamespaceSelector)
	if err != nil {
		return entry, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	objects, err := registry.Selector(o.Spec.ObjectSelector)
	if err != nil {
		return entry, fmt.Errorf("spec.objectSelector: %w", err)
	}
	entry.NamespaceSelector, entry.ObjectSelector, entry.MatchCondition = namespaces, objects, o.Spec.MatchCondition
	return entry, nil
}

// mirrorV1Beta1 writes the condition as readers of contract version v1beta1 know it.
func mirrorV1Beta1(o Object, discovered metav1.Condition) {
	config := o.(*runtimev1.ExtensionConfig)
	if discovered.Status == metav1.ConditionTrue {
		v1beta1.MarkTrue(config, runtimev1.RuntimeExtensionDiscoveredV1Beta1Condition)
		return
	}
	v1beta1.MarkFalse(config, runtimev1.RuntimeExtensionDiscoveredV1Beta1Condition,
		runtimev1.DiscoveryFailedV1Beta1Reason, clusterv1.ConditionSeverityError, "%s", discovered.Message)
}
