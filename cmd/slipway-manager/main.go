// Command slipway-manager runs the infrastructure provider: the controllers and
// webhooks of Hosts, HostClusters, HostMachines and HostMachinePools.
package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/manager"
	"github.com/slipway-dev/slipway/internal/program"
)

func main() {
	options := manager.DefaultOptions()
	program.Main(program.Program{
		Name: "slipway-manager", BindFlags: options.BindFlags,
		Run: func(ctx context.Context, config *rest.Config) error { return manager.Run(ctx, config, options) },
	})
}
