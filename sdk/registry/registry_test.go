package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

var name = capi.BeforeClusterCreate.Definition().Name

func config(configName string) *runtimev1.ExtensionConfig {
	return hooktest.Handler(hooktest.Config(configName, "https://extension.example.com", nil), capi.BeforeClusterCreate, "h", "", 0)
}

func entry(t *testing.T, configName string) registry.Entry {
	t.Helper()
	return hooktest.Entry(t, config(configName))
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func object() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", Labels: map[string]string{"env": "prod"}}}
}

func names(list []*registry.Registration) []string {
	var all []string
	for _, r := range list {
		all = append(all, r.Name)
	}
	return all
}

func TestURLsAreChecked(t *testing.T) {
	port := int32(70000)
	for _, bad := range []runtimev1.ClientConfig{
		{}, {URL: "http://a"}, {URL: "https://"}, {URL: "https://user:password@a"}, {URL: "https://a?x=y"},
		{URL: "https://a#f"}, {URL: "https://a#"}, {URL: "https://a?"}, {URL: "https://a:0"}, {URL: "https:a"}, {URL: "https://a/\x00"},
		{URL: "https://a", Service: runtimev1.ServiceReference{Name: "a", Namespace: "b"}},
		{Service: runtimev1.ServiceReference{Name: "a@b", Namespace: "b"}},
		{Service: runtimev1.ServiceReference{Name: "a", Namespace: "b", Port: &port}},
		{Service: runtimev1.ServiceReference{Name: "a", Namespace: "b", Path: "/x?y"}},
	} {
		if u, err := registry.BaseURL(bad); err == nil {
			t.Errorf("%+v became %s", bad, u)
		}
	}
	base, err := registry.BaseURL(runtimev1.ClientConfig{URL: "https://a:8443/prefix"})
	if err != nil {
		t.Fatal(err)
	}
	if got := registry.HookURL(base, name, "H", 10e9).String(); got != "https://a:8443/prefix/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/h?timeout=10s" {
		t.Error(got)
	}
}

func TestMatch(t *testing.T) {
	r := registry.New(registry.Options{NamespaceLabels: func(context.Context, string) (map[string]string, error) {
		return map[string]string{"team": "a"}, nil
	}})
	if _, err := r.Match(t.Context(), name.GroupHook(), object()); !errors.Is(err, registry.ErrNotReady) {
		t.Errorf("before WarmUp: %v", err)
	}
	other, selected, namespaced := entry(t, "b"), entry(t, "a"), entry(t, "c")
	other.ObjectSelector = selector(t, "env=test")
	selected.ObjectSelector = selector(t, "env in (prod)")
	namespaced.NamespaceSelector = selector(t, "team=a")
	if err := r.WarmUp(namespaced, other, selected); err != nil {
		t.Fatal(err)
	}
	list, err := r.Match(t.Context(), name.GroupHook(), object())
	if got := names(list); err != nil || len(got) != 2 || got[0] != "h.a" || got[1] != "h.c" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := r.MatchHandler(t.Context(), "h.b", object()); err == nil {
		t.Error("a handler that does not select the object was returned")
	}
}

// TestOneBrokenConfigStopsNobody proves degraded start and fail-closed matching.
func TestOneBrokenConfigStopsNobody(t *testing.T) {
	broken := entry(t, "broken")
	broken.ClientConfig.URL = "http://plain"
	broken.ObjectSelector = selector(t, "env=prod")
	r := registry.New(registry.Options{})
	if err := r.WarmUp(broken, entry(t, "good")); err == nil {
		t.Error("WarmUp does not tell of the broken config")
	}
	var unresolved *registry.UnresolvedError
	if _, err := r.Match(t.Context(), name.GroupHook(), object()); !r.Ready() || !errors.As(err, &unresolved) {
		t.Errorf("a matching object: %v, want an UnresolvedError", err)
	}
	unaffected := object()
	unaffected.Labels = nil
	if list, err := r.Match(t.Context(), name.GroupHook(), unaffected); err != nil || len(list) != 1 {
		t.Errorf("another object: %v, %v", names(list), err)
	}
	good := entry(t, "good")
	good.ClientConfig.URL = "https://user@x"
	if err := r.Set(good); err == nil {
		t.Fatal("the config was accepted")
	}
	if got, err := r.Get("h.good"); err != nil || got.URL.Host != "extension.example.com" {
		t.Errorf("the last good registration is gone: %v", err)
	}
	var missing *registry.NotRegisteredError
	if _, err := r.Get("nobody.good"); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
	if uses := r.Uses(); len(uses) != 1 || uses[0] != (hook.Use{Handler: "h.good", Hook: name}) {
		t.Errorf("got %+v", uses)
	}
}

// TestFromExtensionConfig reads the annotations that stand for the fields which
// upstream's type lacks. What cannot be read selects everything and fails closed.
func TestFromExtensionConfig(t *testing.T) {
	typed := config("typed")
	typed.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	typed.Annotations = map[string]string{
		registry.ObjectSelectorAnnotation: "env in (prod),size>3", registry.MatchConditionAnnotation: "true",
	}
	got := hooktest.Entry(t, typed)
	if got.NamespaceSelector.String() != "team=a" || got.ObjectSelector.String() != "env in (prod),size>3" || got.MatchCondition != "true" {
		t.Errorf("got %+v", got)
	}
	bad := map[string]func(*runtimev1.ExtensionConfig){
		"spec.namespaceSelector": func(c *runtimev1.ExtensionConfig) {
			c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		},
		registry.ObjectSelectorAnnotation: func(c *runtimev1.ExtensionConfig) { c.Annotations[registry.ObjectSelectorAnnotation] = "env in (" },
		registry.MatchConditionAnnotation: func(c *runtimev1.ExtensionConfig) { c.Annotations[registry.MatchConditionAnnotation] = "" },
	}
	for names, spoil := range bad {
		broken := typed.DeepCopy()
		spoil(broken)
		got, err := registry.FromExtensionConfig(broken)
		if err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("got %v, want an error that names %s", err, names)
		}
		r := registry.New(registry.Options{})
		r.SetUnresolved(got, err)
		if err := r.WarmUp(); err != nil {
			t.Fatal(err)
		}
		var unresolved *registry.UnresolvedError
		if _, err := r.Match(t.Context(), name.GroupHook(), object()); !errors.As(err, &unresolved) || unresolved.Kind != "ExtensionConfig" {
			t.Errorf("%s: %v, want that the object is refused", names, err)
		}
	}
}

// TestFingerprint changes with what a call depends on, and with nothing else.
func TestFingerprint(t *testing.T) {
	of := func(change func(*registry.Entry)) string {
		e := entry(t, "ext")
		change(&e)
		r := registry.New(registry.Options{CompileCondition: func(string) (registry.Condition, error) { return nil, nil }})
		if err := r.WarmUp(e); err != nil {
			t.Fatal(err)
		}
		registration, err := r.Get("h.ext")
		if err != nil {
			t.Fatal(err)
		}
		return registration.Fingerprint
	}
	same := of(func(*registry.Entry) {})
	if of(func(e *registry.Entry) { e.ResourceVersion = "2" }) != same {
		t.Error("the version of the object changes the fingerprint")
	}
	seen := map[string]bool{same: true}
	for _, change := range []func(*registry.Entry){
		func(e *registry.Entry) { e.ClientConfig.CABundle = []byte("x") },
		func(e *registry.Entry) { e.Settings = map[string]string{"a": "b"} },
		func(e *registry.Entry) { e.NamespaceSelector = selector(t, "a=b") },
		func(e *registry.Entry) { e.ObjectSelector = selector(t, "a=b") },
		func(e *registry.Entry) { e.MatchCondition = "a" },
	} {
		if fingerprint := of(change); seen[fingerprint] {
			t.Errorf("the fingerprint %s is there twice", fingerprint)
		} else {
			seen[fingerprint] = true
		}
	}
}
