package capi

import (
	"context"
	"fmt"
	"net"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
)

// shared is what upstream's managers have in common: one client of runtime
// extensions. The core provider keeps its registry; the others only call.
type shared struct {
	runtime *extensionconfig.Runtime
	client  *extensionClient
}

// newShared acts as the core provider, which may read namespaces. Extensions that ask for
// it get the certificate of caller, as by upstream's --runtime-extension-client-cert-file.
func newShared(base, caller *rest.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*shared, error) {
	s, err := newScheme()
	if err != nil {
		return nil, err
	}
	reader, err := client.New(restConfig(base, "cluster-api-runtime-client"), client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("client for namespaces: %w", err)
	}
	catalog, err := newCatalog()
	if err != nil {
		return nil, err
	}
	rt, err := extensionconfig.NewRuntime(reader, catalog, sdkclient.Options{DialContext: dial, CertFile: caller.CertFile, KeyFile: caller.KeyFile})
	if err != nil {
		return nil, err
	}
	adapter, err := newExtensionClient(catalog, rt.Registry, rt.Client)
	if err != nil {
		return nil, err
	}
	return &shared{runtime: rt, client: adapter}, nil
}
