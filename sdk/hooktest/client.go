package hooktest

import (
	"context"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// Discover returns a client that knows the handlers of the extension of config and calls
// them as Cluster API would, and config with these handlers in its status. The error is
// that of client.Client.Discover while the extension cannot be reached: it may be tried
// again.
func Discover(ctx context.Context, catalog *hook.Catalog, config *runtimev1.ExtensionConfig) (*client.Client, *runtimev1.ExtensionConfig, error) {
	handlers := registry.New(registry.Options{})
	c, err := client.New(client.Options{Catalog: catalog, Registry: handlers})
	if err != nil {
		return nil, nil, err
	}
	entry, err := registry.FromExtensionConfig(config)
	if err != nil {
		return nil, nil, err
	}
	if entry.Handlers, err = c.Discover(ctx, entry); err != nil {
		return nil, nil, err
	}
	discovered := config.DeepCopy()
	discovered.Status.Handlers = entry.Handlers
	return c, discovered, handlers.WarmUp(entry)
}
