// Command slipway-console serves the console in the management cluster, to people who sign in at an OpenID Connect
// provider. It acts with the rights of each.
package main

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/console/team"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/program"
)

func main() {
	options := team.DefaultOptions()
	program.Main(program.Program{
		Name: "slipway-console", BindFlags: options.BindFlags,
		Run: func(ctx context.Context, config *rest.Config) error { return run(ctx, config, options) },
	})
}

func run(ctx context.Context, config *rest.Config, o team.Options) error {
	m, err := program.NewManager(config, ctrl.Options{}, program.Endpoints{Probes: o.ProbeAddress, Metrics: o.MetricsAddress})
	if err != nil {
		return err
	}
	handler, err := team.New(ctx, config, management.NewClient, o, m.GetLogger().WithName("console"))
	if err != nil {
		return err
	}
	if err := errors.Join(program.ServeTLS(m, "console", o.Address, o.CertDir, handler), program.RegisterMetrics(team.Collectors()...)); err != nil {
		return err
	}
	return m.Start(ctx)
}
