package runtime

import (
	"context"
	"errors"
	"testing"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/registry"
)

func serveOurs(ctx context.Context, certFile, keyFile, address string) error {
	s, err := extension.New(extension.Options{CertFile: certFile, KeyFile: keyFile, Address: address})
	if err != nil {
		return err
	}
	if err := errors.Join(
		extension.Handle(s, capi.BeforeClusterCreate, "create", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			return nil, nil
		}),
		extension.Handle(s, capi.GeneratePatches, "patch", func(context.Context, *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
			return nil, nil
		}),
	); err != nil {
		return err
	}
	return s.Run(ctx)
}

// newClient returns a client that knows the handlers of config.
func newClient(t testing.TB, config *runtimev1.ExtensionConfig) *client.Client {
	t.Helper()
	c, err := clientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func clientFor(config *runtimev1.ExtensionConfig) (*client.Client, error) {
	catalog, known := hook.NewCatalog(), registry.New(registry.Options{})
	entry, err := registry.FromExtensionConfig(config)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(capi.AddToCatalog(catalog), known.WarmUp(entry)); err != nil {
		return nil, err
	}
	return client.New(client.Options{Catalog: catalog, Registry: known})
}
