package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/plane/internal/planeclient"
)

func kubeconfigCommand(g *global) *cobra.Command {
	var namespace string
	command := &cobra.Command{
		Use:   "kubeconfig [CLUSTER]",
		Short: "Print the path of a kubeconfig: of the plane, or of a cluster",
		Example: `  export KUBECONFIG=$(slipway kubeconfig)         # the management plane
  export KUBECONFIG=$(slipway kubeconfig local)   # the cluster "local"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			inst, err := g.open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if _, err := planeclient.New(inst); err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), inst.Kubeconfig())
				return err
			}
			c, err := planeclient.New(inst)
			if err != nil {
				return err
			}
			path, err := planeclient.WriteKubeconfig(cmd.Context(), inst, c, client.ObjectKey{Namespace: namespace, Name: args[0]})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
		ValidArgsFunction: completeClusters(func() (client.Client, error) { return managementClient(g, "") }, &namespace),
	}
	command.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the cluster")
	return command
}
