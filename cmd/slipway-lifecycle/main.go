// Command slipway-lifecycle is a runtime extension that answers the lifecycle hooks of
// Cluster API from LifecyclePolicies, and executes what they declare.
package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/lifecycle/engine"
	"github.com/slipway-dev/slipway/internal/program"
)

func main() {
	options := engine.DefaultOptions()
	program.Main(program.Program{
		Name: "slipway-lifecycle", BindFlags: options.BindFlags,
		Run: func(ctx context.Context, config *rest.Config) error { return engine.Run(ctx, config, options) },
	})
}
