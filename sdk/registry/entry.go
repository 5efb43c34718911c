package registry

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
)

const (
	// ObjectSelectorAnnotation on an ExtensionConfig holds a label selector, as
	// kubectl -l takes it, for the objects that its handlers are called for.
	ObjectSelectorAnnotation = "runtime.slipway.dev/object-selector"
	// MatchConditionAnnotation on an ExtensionConfig holds an expression that
	// must be true for an object; see Options.CompileCondition.
	MatchConditionAnnotation = "runtime.slipway.dev/match-condition"
)

// Entry is one extension as the registry takes it, whatever kind of object
// registers it. FromExtensionConfig makes one of Cluster API's kind; a provider
// with a kind of its own makes its entries itself.
type Entry struct {
	// Kind and Name are those of the object that registers the extension. Kind is
	// for messages; Name is a part of the names of the handlers. Names are unique
	// within a registry.
	Kind, Name string
	// ResourceVersion is that of the object. It may be empty.
	ResourceVersion string
	// ClientConfig says where the extension is and which CA it has.
	ClientConfig runtimev1.ClientConfig
	// NamespaceSelector selects by the labels of an object's namespace,
	// ObjectSelector by those of the object. Nil selects all.
	NamespaceSelector, ObjectSelector labels.Selector
	// MatchCondition is an expression that must be true for an object; see
	// Options.CompileCondition. Default: all objects match.
	MatchCondition string
	// Settings are added to each request; those of the request win.
	Settings map[string]string
	// Handlers is what the last discovery told.
	Handlers []runtimev1.ExtensionHandler
}

// FromExtensionConfig returns the entry of Cluster API's kind. Its type has no
// fields for the selection of objects: ObjectSelectorAnnotation and
// MatchConditionAnnotation stand for them. With an error, which names what cannot
// be read, the entry selects every object, so that SetUnresolved fails closed.
func FromExtensionConfig(config *runtimev1.ExtensionConfig) (Entry, error) {
	entry := Entry{
		Kind: "ExtensionConfig", Name: config.Name, ResourceVersion: config.ResourceVersion,
		ClientConfig: config.Spec.ClientConfig, Settings: config.Spec.Settings, Handlers: config.Status.Handlers,
	}
	namespaces, err := Selector(config.Spec.NamespaceSelector)
	if err != nil {
		return entry, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	objects, err := labels.Parse(config.Annotations[ObjectSelectorAnnotation])
	if err != nil {
		return entry, fmt.Errorf("annotation %s: %w", ObjectSelectorAnnotation, err)
	}
	condition, ok := config.Annotations[MatchConditionAnnotation]
	if ok && strings.TrimSpace(condition) == "" {
		return entry, fmt.Errorf("annotation %s is empty; remove it, or write an expression", MatchConditionAnnotation)
	}
	entry.NamespaceSelector, entry.ObjectSelector, entry.MatchCondition = namespaces, objects, condition
	return entry, nil
}

// Selector returns a field's selector as an Entry has it: nil, which selects all,
// for nil.
func Selector(field *metav1.LabelSelector) (labels.Selector, error) {
	if field == nil {
		return nil, nil
	}
	return metav1.LabelSelectorAsSelector(field)
}

// Uses returns the hook versions that handlers implement, for hook.CheckUpgrade.
func Uses(handlers []runtimev1.ExtensionHandler) []hook.Use {
	uses := make([]hook.Use, len(handlers))
	for i, h := range handlers {
		group, version, _ := strings.Cut(h.RequestHook.APIVersion, "/")
		uses[i] = hook.Use{Handler: h.Name, Hook: hook.GroupVersionHook{Group: group, Version: version, Hook: h.RequestHook.Hook}}
	}
	return uses
}
