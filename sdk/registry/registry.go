package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Options configures a Registry.
type Options struct {
	// NamespaceLabels returns the labels of a namespace. It is needed once an
	// Entry has a NamespaceSelector; without it such an extension fails closed.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// CompileCondition compiles Entry.MatchCondition. Default: entries with a
	// condition are refused.
	CompileCondition func(expression string) (Condition, error)
}

// Registry holds the handlers of all extensions. It is safe for concurrent use.
type Registry struct {
	options Options

	mu         sync.RWMutex
	ready      bool
	extensions map[string]*extension
}

// New returns an empty registry that is not ready.
func New(options Options) *Registry {
	return &Registry{options: options, extensions: map[string]*extension{}}
}

// ErrNotReady means that WarmUp has not been called: the handlers are not known yet.
var ErrNotReady = errors.New("the registry of runtime extensions is not ready yet")

// NotRegisteredError tells that no handler of this name is registered.
type NotRegisteredError struct {
	// Name is "<handler>.<entry>".
	Name string
}

// Error implements error.
func (e *NotRegisteredError) Error() string {
	return fmt.Sprintf("handler %q is not registered", e.Name)
}

// UnresolvedError tells that the handlers of a matching extension are not known,
// so that a call for the object fails closed.
type UnresolvedError struct {
	// Kind and Config are kind and name of the object that registers the extension.
	Kind, Config string
	// Err says why.
	Err error
}

// Error implements error.
func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("the handlers of %s %s are not known: %v", e.Kind, e.Config, e.Err)
}

// Unwrap returns the cause.
func (e *UnresolvedError) Unwrap() error { return e.Err }

// WarmUp registers all entries and makes the registry ready, even if some are
// invalid: those become unresolved. The error names them and is for the log.
func (r *Registry) WarmUp(entries ...Entry) error {
	var errs []error
	for _, entry := range entries {
		if err := r.Set(entry); err != nil {
			errs = append(errs, err)
			r.SetUnresolved(entry, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = true
	return errors.Join(errs...)
}

// Ready tells whether WarmUp was called.
func (r *Registry) Ready() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ready
}

// Set registers the handlers of entry and replaces those that were registered for
// it. On an error nothing changes: the last good handlers stay.
func (r *Registry) Set(entry Entry) error {
	e, err := r.newExtension(entry)
	if err == nil {
		err = e.addHandlers()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", entry.Kind, entry.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extensions[entry.Name] = e
	return nil
}

// SetUnresolved makes calls for the objects that entry selects fail with reason,
// until Set succeeds. An entry that has handlers keeps them. One whose condition
// cannot be read selects everything.
func (r *Registry) SetUnresolved(entry Entry, reason error) {
	// The reason is told to the caller; that the condition is broken adds nothing.
	e, _ := r.newExtension(entry)
	e.unresolved = &UnresolvedError{Kind: entry.Kind, Config: entry.Name, Err: reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.extensions[entry.Name]; known != nil && known.unresolved == nil {
		return
	}
	r.extensions[entry.Name] = e
}

// Remove forgets the entry of this name and its handlers.
func (r *Registry) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.extensions, name)
}

// Get returns the handler with the name "<handler>.<entry>", or a
// *NotRegisteredError, an *UnresolvedError or ErrNotReady.
func (r *Registry) Get(name string) (*Registration, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	registration, _, err := r.find(name)
	return registration, err
}

func (r *Registry) find(name string) (*Registration, *extension, error) {
	if !r.ready {
		return nil, nil, ErrNotReady
	}
	for _, e := range r.extensions {
		for _, registration := range e.registrations {
			if registration.Name == name {
				return registration, e, nil
			}
		}
	}
	for config, e := range r.extensions {
		if e.unresolved != nil && name == hook.QualifiedName(hook.HandlerName(name), config) {
			return nil, nil, e.unresolved
		}
	}
	return nil, nil, &NotRegisteredError{Name: name}
}

// Uses returns what is registered, for hook.CheckUpgrade, ordered by name.
func (r *Registry) Uses() []hook.Use {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var uses []hook.Use
	for _, e := range r.extensions {
		for _, registration := range e.registrations {
			uses = append(uses, hook.Use{Handler: registration.Name, Hook: registration.Hook})
		}
	}
	slices.SortFunc(uses, func(a, b hook.Use) int { return cmp.Compare(a.Handler, b.Handler) })
	return uses
}

// Match returns the handlers of a hook that are to be called for object, ordered
// by name. It fails closed: when an unresolved extension selects object, when a
// selector cannot be evaluated, and before WarmUp.
func (r *Registry) Match(ctx context.Context, name hook.GroupHook, object Object) ([]*Registration, error) {
	r.mu.RLock()
	ready, extensions := r.ready, maps.Clone(r.extensions)
	r.mu.RUnlock()
	switch {
	case !ready:
		return nil, ErrNotReady
	case isNil(object):
		return nil, errNoObject
	}
	var list []*Registration
	var errs []error
	for _, config := range slices.Sorted(maps.Keys(extensions)) {
		e := extensions[config]
		of := e.of(name)
		if len(of) == 0 && e.unresolved == nil {
			continue
		}
		match, err := e.matches(ctx, object, r.options.NamespaceLabels)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s %s: %w", e.entry.Kind, config, err))
		case match && e.unresolved != nil:
			errs = append(errs, e.unresolved)
		case match:
			list = append(list, of...)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	slices.SortFunc(list, func(a, b *Registration) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// MatchHandler returns the handler with the given qualified name if it is to be
// called for object, and an error otherwise.
func (r *Registry) MatchHandler(ctx context.Context, name string, object Object) (*Registration, error) {
	if isNil(object) {
		return nil, errNoObject
	}
	r.mu.RLock()
	registration, e, err := r.find(name)
	r.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	match, err := e.matches(ctx, object, r.options.NamespaceLabels)
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", name, err)
	}
	if !match {
		return nil, fmt.Errorf("handler %s does not select the object %s/%s", name, object.GetNamespace(), object.GetName())
	}
	return registration, nil
}

func (e *extension) of(name hook.GroupHook) []*Registration {
	var list []*Registration
	for _, registration := range e.registrations {
		if registration.Hook.GroupHook() == name {
			list = append(list, registration)
		}
	}
	return list
}

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
