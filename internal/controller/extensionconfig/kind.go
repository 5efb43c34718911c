package extensionconfig

import (
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
	// Config returns the object as an ExtensionConfig, which is what the registry
	// takes. It may share memory with the object.
	Config func(Object) *runtimev1.ExtensionConfig
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
	Config:      func(o Object) *runtimev1.ExtensionConfig { return o.(*runtimev1.ExtensionConfig) },
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
	Config:      func(o Object) *runtimev1.ExtensionConfig { return hostConfig(o.(*runtimev1alpha1.HostExtensionConfig)) },
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

// hostConfig writes as annotations what upstream's type has no fields for. A
// selector that cannot be read becomes one that the registry refuses, which then
// fails closed.
func hostConfig(o *runtimev1alpha1.HostExtensionConfig) *runtimev1.ExtensionConfig {
	config := &runtimev1.ExtensionConfig{
		ObjectMeta: *o.ObjectMeta.DeepCopy(),
		Spec: runtimev1.ExtensionConfigSpec{
			ClientConfig:      o.Spec.ClientConfig,
			NamespaceSelector: o.Spec.NamespaceSelector,
			Settings:          o.Spec.Settings,
		},
		Status: runtimev1.ExtensionConfigStatus{Conditions: o.Status.Conditions, Handlers: o.Status.Handlers},
	}
	delete(config.Annotations, registry.ObjectSelectorAnnotation)
	delete(config.Annotations, registry.MatchConditionAnnotation)
	if o.Spec.ObjectSelector != nil {
		text := "!!"
		if selector, err := metav1.LabelSelectorAsSelector(o.Spec.ObjectSelector); err == nil {
			text = selector.String()
		}
		metav1.SetMetaDataAnnotation(&config.ObjectMeta, registry.ObjectSelectorAnnotation, text)
	}
	if o.Spec.MatchCondition != "" {
		metav1.SetMetaDataAnnotation(&config.ObjectMeta, registry.MatchConditionAnnotation, o.Spec.MatchCondition)
	}
	return config
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
