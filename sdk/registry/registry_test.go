package registry_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	other, selected, namespaced := config("b"), config("a"), config("c")
	other.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "env=test"}
	selected.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "env in (prod)"}
	namespaced.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	if err := r.WarmUp([]runtimev1.ExtensionConfig{*namespaced, *other, *selected}); err != nil {
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
	broken := config("broken")
	broken.Spec.ClientConfig.URL = "http://plain"
	broken.Annotations = map[string]string{registry.ObjectSelectorAnnotation: "env=prod"}
	r := registry.New(registry.Options{})
	if err := r.WarmUp([]runtimev1.ExtensionConfig{*broken, *config("good")}); err == nil {
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
	good := config("good")
	good.Spec.ClientConfig.URL = "https://user@x"
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
