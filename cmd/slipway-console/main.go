// Command slipway-console serves the console in the management cluster, to people who sign in at an OpenID Connect
// provider. It acts with the rights of each.
package main

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/console/team"
	"github.com/slipway-dev/slipway/internal/program"
)

func main() {
	options := team.DefaultOptions()
	program.Main(program.Program{
		Name: "slipway-console", BindFlags: options.BindFlags,
		Run: func(ctx context.Context, config *rest.Config) error { return team.Run(ctx, config, options) },
	})
}
