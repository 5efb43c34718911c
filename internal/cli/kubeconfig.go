package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/management"
)

func kubeconfigCommand(p *Program) *cobra.Command {
	f, output := &managementFlags{program: p}, ""
	command := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print the path of a kubeconfig of a cluster",
		Long: `Print the path of a kubeconfig of a cluster, for $(...). It is written below the user's
configuration directory, readable only by its user. With -o yaml it is printed, and not
written.`,
		Example: `  export KUBECONFIG=$(slipway kubeconfig prod)
  slipway kubeconfig prod --context mgmt -o yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			if len(args) == 0 && s.cluster.Plane == nil {
				return fmt.Errorf("want `%s CLUSTER`: the kubeconfig of this management cluster is yours already", cmd.CommandPath())
			}
			kubeconfig, err := kubeconfigOf(cmd, s, args)
			if err != nil {
				return err
			}
			if output == outputYAML {
				_, err = cmd.OutOrStdout().Write(kubeconfig.Data)
				return err
			}
			path, err := kubeconfig.Write()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	if p.Local != nil {
		command.Use = "kubeconfig [CLUSTER]"
		command.Short = "Print the path of a kubeconfig: of the plane, or of a cluster"
		command.Long = `Print the path of a kubeconfig, for $(...): of the plane, or of a cluster. That of a
cluster is written for its user alone: into the state directory of the plane, and for
other management clusters below the user's configuration directory. With -o yaml it is
printed itself, and not written.`
		command.Example = `  export KUBECONFIG=$(slipway kubeconfig)         # the management plane
  export KUBECONFIG=$(slipway kubeconfig local)   # the cluster "local"
  slipway kubeconfig prod --context mgmt -o yaml  # of another management cluster`
	}
	f.bind(command, "of the cluster")
	outputFlag(command, &output, "path", outputYAML)
	return command
}

func kubeconfigOf(cmd *cobra.Command, s *session, args []string) (management.Kubeconfig, error) {
	if len(args) == 0 {
		return s.cluster.Plane.Kubeconfig()
	}
	return s.cluster.WorkloadKubeconfig(cmd.Context(), s, s.key(args[0]))
}
