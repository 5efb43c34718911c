package client_test

import (
	"context"
	"strings"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooks/host/v1beta1"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

func TestDiscoverIsSortedAndCompleted(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success","handlers":[
		{"name":"b","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterCreate"}},
		{"name":"a","requestHook":{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","hook":"BeforeClusterDelete"},"timeoutSeconds":3,"failurePolicy":"Ignore"}]}`))
	h, err := newClient(t, client.Options{}).Discover(t.Context(), hooktest.Entry(t, hooktest.Config("ext", f.URL, f.CA.PEM)))
	if err != nil {
		t.Fatal(err)
	}
	if len(h) != 2 || h[0].Name != "a.ext" || h[0].TimeoutSeconds != 3 || h[0].FailurePolicy != ignore ||
		h[1].Name != "b.ext" || h[1].TimeoutSeconds != 10 || h[1].FailurePolicy != fail {
		t.Errorf("got %+v", h)
	}
}

func TestDiscoverNamesAllThatIsWrong(t *testing.T) {
	f := hooktest.StartFaults(t, hooktest.Body(`{"status":"Success","handlers":[
		{"name":"Bad_Name","requestHook":{"apiVersion":"x/v1","hook":"Nope"},"timeoutSeconds":31,"failurePolicy":"Maybe"},
		{"name":"Bad_Name","requestHook":{"apiVersion":"x/v1","hook":"Nope"}}]}`))
	_, err := newClient(t, client.Options{}).Discover(t.Context(), hooktest.Entry(t, hooktest.Config("ext", f.URL, f.CA.PEM)))
	for _, want := range []string{"invalid name", "timeoutSeconds 31", "Maybe", "not in the catalog", "there twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to tell of %q", err, want)
		}
	}
}

// TestOlderExtension calls an extension at v1alpha1 with requests of v1beta1.
func TestOlderExtension(t *testing.T) {
	catalog := newCatalog(t)
	if err := host.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	older := hooktest.Older(t, catalog, host.BeforeHostClaim, "v1alpha1")
	ext := hooktest.Start(t, extension.Options{Catalog: catalog}, func(s *extension.Server) error {
		return extension.Handle(s, older, "claim", func(_ context.Context, r *v1beta1.BeforeHostClaimRequest) (*v1beta1.BeforeHostClaimResponse, error) {
			return nil, extension.RetryAfter(1, r.APIVersion+": "+r.Machine.Name+" waits for "+r.Host.Name)
		})
	})
	c := newClient(t, client.Options{Catalog: catalog})
	config := hooktest.Config("ext", ext.URL, ext.CA.PEM)
	handlers, err := c.Discover(t.Context(), hooktest.Entry(t, config))
	if err != nil {
		t.Fatal(err)
	}
	config.Status.Handlers = handlers
	c = newClient(t, client.Options{Catalog: catalog}, config)
	request := &v1beta1.BeforeHostClaimRequest{
		Machine: v1beta1.ObjectReference{Namespace: "default", Name: "m"},
		Host:    v1beta1.Host{Name: "host-1", Labels: map[string]string{"zone": "a"}},
	}
	response, err := client.Call(t.Context(), c, host.BeforeHostClaim, "claim.ext", cluster(), request)
	if err != nil {
		t.Fatal(err)
	}
	if response.Message != older.Definition().RequestKind.GroupVersion().String()+": m waits for host-1" || response.RetryAfterSeconds != 1 || response.APIVersion != v1beta1.GroupVersion.String() {
		t.Errorf("got %+v", response)
	}
}

func TestWrongRequestIsRefused(t *testing.T) {
	_, c := faulty(t, fail, 5, hooktest.Body(`{"status":"Success"}`))
	if _, err := c.Invoke(t.Context(), capi.BeforeClusterCreate, "h.ext", cluster(), &hooksv1.BeforeClusterDeleteRequest{}); err == nil {
		t.Error("the request of another hook was accepted")
	}
}
