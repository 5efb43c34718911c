package cli

import (
	"cmp"
	"errors"
	"os"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/planeclient"
	"github.com/slipway-dev/slipway/plane/internal/service"
)

// Environment variables that give flags their defaults.
const (
	envStateDir = "SLIPWAY_STATE_DIR"
	envBundle   = cli.BundleVariable
)

// Root returns the slipway command.
func Root() *cobra.Command {
	return rootOf(&global{services: service.Local()})
}

func rootOf(g *global) *cobra.Command {
	root := cli.Root(cli.Program{
		Name: "slipway",
		Long: `Slipway turns the Linux hosts you already have into Kubernetes clusters, managed
by Cluster API. "slipway up" brings a whole plane and a cluster to this machine.`,
		Kubernetes: componentversion.Get().GitVersion,
		Local:      g,
		Commands: func() cli.Commands {
			return cli.Commands{
				Use:  []*cobra.Command{upCommand(g), downCommand(g), installCommand(g), uninstallCommand(g), backupCommand(g), restoreCommand(g)},
				More: []*cobra.Command{serveCommand(g)},
				Host: hostCommands(g),
			}
		},
	})
	root.PersistentFlags().StringVar(&g.stateDir, "state-dir", cmp.Or(os.Getenv(envStateDir), instance.DefaultStateDir),
		"directory in which the plane keeps everything; $"+envStateDir+" when set")
	return root
}

// Plane opens the plane of the state directory for the commands of internal/cli.
func (g *global) Plane() (management.Plane, error) {
	inst, err := g.open()
	if errors.Is(err, instance.ErrNone) {
		return nil, &management.NoPlaneError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	hosts, err := manager(inst)
	if err != nil {
		return nil, err
	}
	return planeclient.Plane{Instance: inst, Manager: hosts, Services: g.services}, nil
}

// Named says whether the user named the state directory.
func (g *global) Named(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("state-dir") || os.Getenv(envStateDir) != ""
}
