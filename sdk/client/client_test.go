package client_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/sdk/registry"
)

func newCatalog(t testing.TB) *hook.Catalog {
	t.Helper()
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		t.Fatal(err)
	}
	return catalog
}

// newClient returns a client that knows the handlers in the status of configs.
func newClient(t testing.TB, options client.Options, configs ...*runtimev1.ExtensionConfig) *client.Client {
	t.Helper()
	if options.Catalog == nil {
		options.Catalog = newCatalog(t)
	}
	if options.Registry == nil {
		options.Registry = registry.New(registry.Options{})
	}
	var entries []registry.Entry
	for _, config := range configs {
		entries = append(entries, hooktest.Entry(t, config))
	}
	if err := options.Registry.WarmUp(entries...); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "my-cluster", Labels: map[string]string{"env": "test"}}}
}
