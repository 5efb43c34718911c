package cli

import (
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func clusterDeleteCommand(p *Program) *cobra.Command {
	f := &clusterChangeFlags{managementFlags: managementFlags{program: p}}
	var yes bool
	command := &cobra.Command{
		Use:     "delete CLUSTER",
		Aliases: []string{"remove", "rm"},
		Short:   "Delete a cluster, and release its hosts",
		Long: `Delete a cluster with everything that runs in it. Its hosts are reset, and available for
others once they are verified as clean. Lifecycle policies block it like any other
deletion. It asks first, unless --yes is given.`,
		Example: "  slipway cluster delete test --wait",
		Args:    cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			cluster, err := getCluster(cmd.Context(), cmd, s, args[0])
			if err != nil {
				return err
			}
			if !yes {
				if err := confirm(cmd, s, cluster); err != nil {
					return err
				}
			}
			// the one that was shown, and not another one of its name
			if err := s.Delete(cmd.Context(), cluster, client.Preconditions{UID: &cluster.UID}); client.IgnoreNotFound(err) != nil {
				return err
			}
			if f.wait {
				_, err = f.follow(cmd, s, cluster.Name, func(now *clusterv1.Cluster, err error) (bool, error) {
					return apierrors.IsNotFound(err) || now.UID != cluster.UID, nil
				})
			}
			return err
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.managementFlags.bind(command, "of the cluster")
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	f.waitFlags.bind(command, "it is gone")
	return command
}
