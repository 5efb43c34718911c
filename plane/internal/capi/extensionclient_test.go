package capi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/cluster-api/util/cache"

	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

func newClient(t *testing.T) *extensionClient {
	t.Helper()
	catalog, err := newCatalog()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(registry.Options{})
	c, err := sdkclient.New(sdkclient.Options{Catalog: catalog, Registry: r, Backoff: sdkclient.Backoff{Initial: 1, Max: 1}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := newExtensionClient(catalog, r, c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func aCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
}

type (
	createRequest  = hooksv1.BeforeClusterCreateRequest
	createResponse = hooksv1.BeforeClusterCreateResponse
)

func retry(seconds time.Duration, message string) func(context.Context, *createRequest) (*createResponse, error) {
	return func(context.Context, *createRequest) (*createResponse, error) {
		return nil, extension.RetryAfter(seconds*time.Second, message)
	}
}

// TestUpstreamInterface goes the way upstream's controllers go: warm up, discover,
// register, ask which handlers there are, call all of them, call one.
func TestUpstreamInterface(t *testing.T) {
	c := newClient(t)
	ext := hooktest.Start(t, extension.Options{}, func(s *extension.Server) error {
		return errors.Join(
			extension.Handle(s, capi.BeforeClusterCreate, "slow", retry(30, "slowly")),
			extension.Handle(s, capi.BeforeClusterCreate, "fast", retry(5, "soon")),
			extension.Handle(s, capi.BeforeClusterCreate, "refuse-later", func(context.Context, *createRequest) (*createResponse, error) { return nil, nil }),
			extension.Handle(s, capi.BeforeClusterDelete, "refuse", func(context.Context, *hooksv1.BeforeClusterDeleteRequest) (*hooksv1.BeforeClusterDeleteResponse, error) {
				return nil, errors.New("no")
			}),
		)
	})
	config := hooktest.Config("ext", ext.URL, ext.CA.PEM)
	if _, err := c.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster()); c.IsReady() || !errors.Is(err, registry.ErrNotReady) {
		t.Errorf("before WarmUp: %v", err)
	}
	if err := c.Register(config); !errors.Is(err, registry.ErrNotReady) {
		t.Errorf("Register before WarmUp: %v", err)
	}
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil || !c.IsReady() {
		t.Fatal(err)
	}
	response := &createResponse{}
	if err := c.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), &createRequest{}, response); err != nil || response.Status != hooksv1.ResponseStatusSuccess {
		t.Errorf("a hook without handlers: %v %+v", err, response)
	}
	discovered, err := c.Discover(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Register(discovered); err != nil {
		t.Fatal(err)
	}
	names, err := c.GetAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster())
	if want := []string{"fast.ext", "refuse-later.ext", "slow.ext"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("got %v, %v", names, err)
	}
	err = c.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), &createRequest{Cluster: *aCluster()}, response)
	if err != nil || response.RetryAfterSeconds != 5 || response.Message != "fast.ext: soon, slow.ext: slowly" {
		t.Errorf("got %v, %+v", err, response)
	}
	deleted := &hooksv1.BeforeClusterDeleteResponse{}
	var rejected *sdkclient.RejectedError
	err = c.CallExtension(t.Context(), hooksv1.BeforeClusterDelete, aCluster(), "refuse.ext", &hooksv1.BeforeClusterDeleteRequest{}, deleted)
	if !errors.As(err, &rejected) || deleted.Status != hooksv1.ResponseStatusFailure || deleted.Message == "" {
		t.Errorf("a refusal: %v, %+v", err, deleted)
	}
	if err := c.Unregister(config); err != nil {
		t.Fatal(err)
	}
	var missing *registry.NotRegisteredError
	if err := c.CallExtension(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), "fast.ext", &createRequest{}, response); !errors.As(err, &missing) {
		t.Errorf("after Unregister: %v", err)
	}
}

func TestWrongTypesAreRefused(t *testing.T) {
	c := newClient(t)
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	var none *createResponse
	for name, err := range map[string]error{
		"response of another hook": c.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), &createRequest{}, &hooksv1.BeforeClusterDeleteResponse{}),
		"request of another hook":  c.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), &hooksv1.BeforeClusterDeleteRequest{}, &createResponse{}),
		"nil response":             c.CallAllExtensions(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), &createRequest{}, none),
		"no hook":                  c.CallAllExtensions(t.Context(), func() {}, aCluster(), &createRequest{}, &createResponse{}),
		"nil list":                 c.WarmUp(nil),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestIgnoreLeavesNoHalfAnswer is upstream's defect by which a broken answer under the policy
// Ignore leaves in the caller's response what was there before, or was decoded of it.
func TestIgnoreLeavesNoHalfAnswer(t *testing.T) {
	c := newClient(t)
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success","message":5}`))
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.BeforeClusterCreate, "h", runtimev1.FailurePolicyIgnore, 1)
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{*config}}); err != nil {
		t.Fatal(err)
	}
	response := &createResponse{}
	response.RetryAfterSeconds = 7
	if err := c.CallExtension(t.Context(), hooksv1.BeforeClusterCreate, aCluster(), "h.ext", &createRequest{}, response); err != nil ||
		response.Status != hooksv1.ResponseStatusSuccess || response.RetryAfterSeconds != 0 || response.Message != "" {
		t.Errorf("%v, %+v", err, response)
	}
}

// TestCaching holds that equal requests are answered from upstream's cache, that
// settings and the object's version are part of the key, and that neither caller
// can change what is kept.
func TestCaching(t *testing.T) {
	c := newClient(t)
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success","variables":[{"name":"v","required":true,"schema":{"openAPIV3Schema":{"type":"string"}}}]}`))
	config := hooktest.Handler(hooktest.Config("ext", f.URL, f.CA.PEM), capi.DiscoverVariables, "h", "", 0)
	config.Spec.Settings = map[string]string{"from": "config"}
	if err := c.WarmUp(&runtimev1.ExtensionConfigList{Items: []runtimev1.ExtensionConfig{*config}}); err != nil {
		t.Fatal(err)
	}
	var keys []string
	caching := runtimeclient.WithCaching{
		Cache: cache.New[runtimeclient.CallExtensionCacheEntry](t.Context(), time.Minute),
		CacheKeyFunc: func(name, version string, request hooksv1.RequestObject) string {
			keys = append(keys, name+" "+version+" "+request.GetSettings()["from"]+" "+request.GetSettings()["own"])
			return keys[len(keys)-1]
		},
	}
	call := func(own string) *hooksv1.DiscoverVariablesResponse {
		request, response := &hooksv1.DiscoverVariablesRequest{}, &hooksv1.DiscoverVariablesResponse{}
		request.Settings = map[string]string{"own": own}
		if err := c.CallExtension(t.Context(), hooksv1.DiscoverVariables, aCluster(), "h.ext", request, response, caching); err != nil {
			t.Fatal(err)
		}
		return response
	}
	first := call("a")
	first.Variables[0].Name = "changed"
	second := call("a")
	if second.Variables[0].Name != "v" || f.Requests() != 1 {
		t.Errorf("got %q after %d requests", second.Variables[0].Name, f.Requests())
	}
	second.Variables[0].Name = "changed"
	if third := call("a"); third.Variables[0].Name != "v" {
		t.Error("the cache hands out what a caller changed")
	}
	if call("b"); f.Requests() != 2 || keys[0] != "h.ext 1 config a" {
		t.Errorf("%d requests, keys %q", f.Requests(), keys)
	}
	f.Set(hooktest.Status(http.StatusServiceUnavailable, ""))
	request := &hooksv1.DiscoverVariablesRequest{}
	if err := c.CallExtension(t.Context(), hooksv1.DiscoverVariables, aCluster(), "h.ext", request, &hooksv1.DiscoverVariablesResponse{}, caching); err == nil {
		t.Error("an error was swallowed")
	}
}
