package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/management"
)

// kubeconfigFlags say what becomes of a kubeconfig.
type kubeconfigFlags struct {
	managementFlags
	raw, merge bool
	output     string
}

func kubeconfigCommand(p *Program) *cobra.Command {
	f := &kubeconfigFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Get the kubeconfig of a cluster",
		Long: `Write the kubeconfig of a cluster below the user's configuration directory, readable
only by its user, and print its path, for $(...). --raw prints the kubeconfig instead, and
--merge adds it to the file of kubectl.`,
		Example: `  export KUBECONFIG=$(slipway kubeconfig prod)
  slipway kubeconfig prod --merge
  slipway kubeconfig prod --context mgmt --raw > prod.kubeconfig`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.ofPlane = len(args) == 0
			return f.on(f.get)(cmd, args)
		},
		ValidArgsFunction: f.completeClusters(),
	}
	if p.Local != nil {
		command.Use = "kubeconfig [CLUSTER]"
		command.Short = "Get a kubeconfig: of the plane, or of a cluster"
		command.Long = `Print the path of a kubeconfig, for $(...): of this machine's plane, or of a cluster. That
of a cluster is written for its user alone: into the state directory of the plane, and for
other management clusters below the user's configuration directory. --raw prints the
kubeconfig instead, and --merge adds it to the file of kubectl.`
		command.Example = `  export KUBECONFIG=$(slipway kubeconfig)         # the management plane
  export KUBECONFIG=$(slipway kubeconfig local)   # the cluster "local"
  slipway kubeconfig local --merge                # a context of kubectl's own file
  slipway kubeconfig prod --context mgmt --raw    # of another management cluster`
	}
	command.Flags().BoolVar(&f.raw, "raw", false, "print the kubeconfig, and write nothing; as -o yaml")
	command.Flags().BoolVar(&f.merge, "merge", false, "add it to the kubeconfig of kubectl ($KUBECONFIG or ~/.kube/config), whose current context stays")
	f.bind(command, "of the cluster")
	outputFlag(command, &f.output, "path", outputYAML)
	command.MarkFlagsMutuallyExclusive("raw", "merge", "output")
	return command
}

func (f *kubeconfigFlags) get(cmd *cobra.Command, s *session, args []string) error {
	if len(args) == 0 && s.cluster.Plane == nil {
		return fmt.Errorf("want `%s CLUSTER`: the kubeconfig of this management cluster is yours already", cmd.CommandPath())
	}
	kubeconfig, err := kubeconfigOf(cmd, s, args)
	switch {
	case err != nil:
	case f.raw, f.output == outputYAML:
		_, err = cmd.OutOrStdout().Write(kubeconfig.Data)
	case f.merge:
		var name, file string
		if name, file, err = kubeconfig.Merge(); err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Context %q is in %s: kubectl --context %[1]s get nodes\n", name, file)
		}
	default:
		var path string
		if path, err = kubeconfig.Write(); err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
		}
	}
	return err
}

func kubeconfigOf(cmd *cobra.Command, s *session, args []string) (management.Kubeconfig, error) {
	if len(args) == 0 {
		return s.cluster.Plane.Kubeconfig()
	}
	return s.cluster.WorkloadKubeconfig(cmd.Context(), s, s.key(args[0]))
}
