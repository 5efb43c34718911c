package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/clusters"
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
			cluster, err := getCluster(cmd, s, args[0])
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

// errNotConfirmed says that a user did not want what was asked.
var errNotConfirmed = errors.New("nothing was deleted")

// confirm has the user of a terminal type the name of the cluster.
func confirm(cmd *cobra.Command, s *session, cluster *clusterv1.Cluster) error {
	state := clusters.Look(cluster)
	return Confirm(cmd, cluster.Name, fmt.Sprintf("Cluster %s/%s of %s has %d control planes and %d workers. All that runs there ends, and its data on the hosts is deleted.",
		cluster.Namespace, cluster.Name, s.cluster.Name, state.ControlPlane.Desired, state.Workers.Desired))
}

// Confirm tells the user of a terminal what would be deleted, and has its name typed. It fails when another name was
// typed, and when there is no terminal.
func Confirm(cmd *cobra.Command, name, what string) error {
	if in, ok := cmd.InOrStdin().(*os.File); ok && !term.IsTerminal(int(in.Fd())) {
		return fmt.Errorf("%w: there is no terminal to ask on, give --yes", errNotConfirmed)
	}
	_, _ = escapes.WriteString(cmd.ErrOrStderr(), fmt.Sprintf("%s\nType its name, %s, to delete it: ", what, name))
	typed, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(typed) != name {
		return errNotConfirmed
	}
	return nil
}
