package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
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

// Object is what a hook is called for, usually a Cluster.
type Object interface {
	GetNamespace() string
	GetName() string
	GetLabels() map[string]string
}

// Condition decides whether the handlers of an extension are called for object.
type Condition func(ctx context.Context, object Object) (bool, error)

// Registration is one handler of an ExtensionConfig. It is immutable.
type Registration struct {
	// Name is "<handler>.<extensionConfig>", Handler and Config are its parts.
	Name, Handler, Config string
	// ResourceVersion is that of the ExtensionConfig.
	ResourceVersion string
	// Hook is the version that the handler implements.
	Hook hook.GroupVersionHook
	// URL is where the handler is called, with the timeout as query.
	URL *url.URL
	// CABundle holds the CAs of the extension in PEM form, empty for the system's.
	CABundle []byte
	// Timeout bounds one call.
	Timeout time.Duration
	// FailurePolicy decides what follows when the handler cannot be called.
	FailurePolicy runtimev1.FailurePolicy
	// Settings are added to each request; those of the request win.
	Settings map[string]string
	// Fingerprint changes with anything in the spec of the ExtensionConfig.
	Fingerprint string
}

// extension is one ExtensionConfig with what its handlers share.
type extension struct {
	registrations []*Registration
	namespaces    labels.Selector
	objects       labels.Selector
	condition     Condition
	unresolved    error
}

func (r *Registry) newExtension(config *runtimev1.ExtensionConfig) (*extension, error) {
	e := &extension{}
	var err error
	if e.namespaces, err = metav1.LabelSelectorAsSelector(config.Spec.NamespaceSelector); err != nil {
		return nil, fmt.Errorf("namespaceSelector: %w", err)
	}
	if config.Spec.NamespaceSelector == nil {
		e.namespaces = labels.Everything()
	}
	if e.objects, err = labels.Parse(config.Annotations[ObjectSelectorAnnotation]); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", ObjectSelectorAnnotation, err)
	}
	if expression, ok := config.Annotations[MatchConditionAnnotation]; ok {
		if r.options.CompileCondition == nil {
			return nil, fmt.Errorf("annotation %s: this process evaluates no conditions", MatchConditionAnnotation)
		}
		if e.condition, err = r.options.CompileCondition(expression); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", MatchConditionAnnotation, err)
		}
	}
	return e, nil
}

// everything selects all objects.
func everything() *extension {
	return &extension{namespaces: labels.Everything(), objects: labels.Everything()}
}

func (e *extension) addHandlers(config *runtimev1.ExtensionConfig) error {
	base, err := BaseURL(config.Spec.ClientConfig)
	if err != nil {
		return err
	}
	print, err := fingerprint(config)
	if err != nil {
		return err
	}
	for _, h := range config.Status.Handlers {
		gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil {
			return fmt.Errorf("handler %s: %w", h.Name, err)
		}
		name, suffixed := strings.CutSuffix(h.Name, "."+config.Name)
		if !suffixed || name == "" {
			return fmt.Errorf("handler %q: want the name <handler>.%s", h.Name, config.Name)
		}
		timeout := time.Duration(h.TimeoutSeconds) * time.Second
		if timeout <= 0 {
			timeout = hooksv1.DefaultHandlersTimeoutSeconds * time.Second
		}
		policy := h.FailurePolicy
		if policy == "" {
			policy = runtimev1.FailurePolicyFail
		}
		gvh := hook.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: h.RequestHook.Hook}
		e.registrations = append(e.registrations, &Registration{
			Name: h.Name, Handler: name, Config: config.Name,
			ResourceVersion: config.ResourceVersion,
			Hook:            gvh,
			URL:             HookURL(base, gvh, name, timeout),
			CABundle:        append([]byte(nil), config.Spec.ClientConfig.CABundle...),
			Timeout:         timeout,
			FailurePolicy:   policy,
			Settings:        maps.Clone(config.Spec.Settings),
			Fingerprint:     print,
		})
	}
	return nil
}

func fingerprint(config *runtimev1.ExtensionConfig) (string, error) {
	spec, err := json.Marshal(config.Spec)
	if err != nil {
		return "", fmt.Errorf("encode the spec: %w", err)
	}
	sum := sha256.Sum256(spec)
	return hex.EncodeToString(sum[:]), nil
}

// matches tells whether the handlers of e are called for object.
func (e *extension) matches(ctx context.Context, object Object, namespaceLabels func(context.Context, string) (map[string]string, error)) (bool, error) {
	if !e.objects.Matches(labels.Set(object.GetLabels())) {
		return false, nil
	}
	if !e.namespaces.Empty() {
		if namespaceLabels == nil {
			return false, errors.New("a namespaceSelector is set, but this process cannot read namespaces")
		}
		set, err := namespaceLabels(ctx, object.GetNamespace())
		if err != nil {
			return false, fmt.Errorf("labels of namespace %s: %w", object.GetNamespace(), err)
		}
		if !e.namespaces.Matches(labels.Set(set)) {
			return false, nil
		}
	}
	if e.condition != nil {
		return e.condition(ctx, object)
	}
	return true, nil
}
