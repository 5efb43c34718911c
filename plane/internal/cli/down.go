package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/down"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/progress"
)

func downCommand(g *global) *cobra.Command {
	var purge bool
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop the plane and all local hosts",
		Long: `Stop the plane and all local hosts and leave no process, mount, cgroup or network
namespace behind. Their disks stay, and the next "slipway up" goes on from them,
unless --purge removes them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			inst, err := g.open()
			if errors.Is(err, instance.ErrNone) {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "Nothing to take down: no plane in", g.stateDir)
				return err
			}
			if err != nil {
				return err
			}
			lock, err := inst.Lock()
			if err != nil {
				return err
			}
			defer lock.Release()
			hosts, err := manager(inst)
			if err != nil {
				return err
			}
			tree := progress.New(os.Stderr)
			err = down.Run(cmd.Context(), inst, hosts, purge, tree)
			tree.Close()
			if err != nil {
				return fmt.Errorf("%w\nRun `%s down` again: it goes on where it stopped", err, g.command())
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Down in %.1fs.\n", tree.Elapsed().Seconds())
			return err
		},
	}
	command.Flags().BoolVar(&purge, "purge", false, "remove the state directory, too: the data of the plane and the disks of the hosts")
	return command
}
