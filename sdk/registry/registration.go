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
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Object is what a hook is called for, usually a Cluster.
type Object interface {
	GetNamespace() string
	GetName() string
	GetLabels() map[string]string
}

// Condition decides whether the handlers of an extension are called for object.
type Condition func(ctx context.Context, object Object) (bool, error)

// Registration is one handler of an Entry. It is immutable.
type Registration struct {
	// Name is "<handler>.<entry>", Handler and Config are its parts.
	Name, Handler, Config string
	// ResourceVersion is that of the entry.
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
	// Fingerprint changes with anything in the entry but its version and handlers.
	Fingerprint string
}

// extension is one Entry with what its handlers share.
type extension struct {
	entry         Entry
	registrations []*Registration
	condition     Condition
	unresolved    error
}

// newExtension reads the selection of objects. With an error it selects all.
func (r *Registry) newExtension(entry Entry) (*extension, error) {
	e := &extension{entry: entry}
	if entry.MatchCondition == "" {
		return e, nil
	}
	err := errors.New("this process evaluates no conditions")
	if r.options.CompileCondition != nil {
		e.condition, err = r.options.CompileCondition(entry.MatchCondition)
	}
	if err != nil {
		e.entry.NamespaceSelector, e.entry.ObjectSelector = nil, nil
		return e, fmt.Errorf("match condition: %w", err)
	}
	return e, nil
}

func (e *extension) addHandlers() error {
	base, err := BaseURL(e.entry.ClientConfig)
	if err != nil {
		return err
	}
	fingerprint, err := e.entry.fingerprint()
	if err != nil {
		return err
	}
	for _, h := range e.entry.Handlers {
		gv, err := schema.ParseGroupVersion(h.RequestHook.APIVersion)
		if err != nil {
			return fmt.Errorf("handler %s: %w", h.Name, err)
		}
		name, suffixed := strings.CutSuffix(h.Name, "."+e.entry.Name)
		if !suffixed || name == "" {
			return fmt.Errorf("handler %q: want the name <handler>.%s", h.Name, e.entry.Name)
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
			Name: h.Name, Handler: name, Config: e.entry.Name,
			ResourceVersion: e.entry.ResourceVersion,
			Hook:            gvh,
			URL:             HookURL(base, gvh, name, timeout),
			CABundle:        append([]byte(nil), e.entry.ClientConfig.CABundle...),
			Timeout:         timeout,
			FailurePolicy:   policy,
			Settings:        maps.Clone(e.entry.Settings),
			Fingerprint:     fingerprint,
		})
	}
	return nil
}

func (e Entry) fingerprint() (string, error) {
	text := func(s labels.Selector) string {
		if s == nil {
			return ""
		}
		return s.String()
	}
	spec, err := json.Marshal([]any{e.ClientConfig, e.Settings, text(e.NamespaceSelector), text(e.ObjectSelector), e.MatchCondition})
	if err != nil {
		return "", fmt.Errorf("encode the entry: %w", err)
	}
	sum := sha256.Sum256(spec)
	return hex.EncodeToString(sum[:]), nil
}

// errNoObject means that a hook is called for nothing: no selector can say whether
// that is selected.
var errNoObject = errors.New("the object that the hook is called for is nil")

// isNil tells whether object is nil, or an interface of a nil pointer.
func isNil(object Object) bool {
	v := reflect.ValueOf(object)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// matches tells whether the handlers of e are called for object.
func (e *extension) matches(ctx context.Context, object Object, namespaceLabels func(context.Context, string) (map[string]string, error)) (bool, error) {
	if objects := e.entry.ObjectSelector; objects != nil && !objects.Matches(labels.Set(object.GetLabels())) {
		return false, nil
	}
	if namespaces := e.entry.NamespaceSelector; namespaces != nil && !namespaces.Empty() {
		if namespaceLabels == nil {
			return false, errors.New("a namespaceSelector is set, but this process cannot read namespaces")
		}
		set, err := namespaceLabels(ctx, object.GetNamespace())
		if err != nil {
			return false, fmt.Errorf("labels of namespace %s: %w", object.GetNamespace(), err)
		}
		if !namespaces.Matches(labels.Set(set)) {
			return false, nil
		}
	}
	if e.condition != nil {
		return e.condition(ctx, object)
	}
	return true, nil
}
