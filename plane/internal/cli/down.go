package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/progress"
	"github.com/slipway-dev/slipway/plane/internal/service"
	"github.com/slipway-dev/slipway/plane/internal/up"
)

func downCommand(g *global) *cobra.Command {
	var purge, yes bool
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop the plane and all local hosts",
		Long: `Stop the plane and all local hosts, without a remaining process, mount, cgroup or
network namespace. Their disks stay, and the next "slipway up" continues from them,
unless --purge removes them, which asks first unless --yes is given. A plane that is a service of this machine (see "slipway
install") starts again with the machine; --purge removes the service.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDown(cmd, g, purge, yes) },
	}
	command.Flags().BoolVar(&purge, "purge", false, "remove the state directory, too: the data of the plane and the disks of the hosts")
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return command
}

func runDown(cmd *cobra.Command, g *global, purge, yes bool) error {
	installed, err := g.service()
	if err != nil {
		return err
	}
	inst, err := g.open()
	if errors.Is(err, instance.ErrNone) {
		fmt.Fprintln(cmd.OutOrStdout(), "Nothing to take down: no plane in", g.stateDir)
		if installed != nil {
			fmt.Fprintf(cmd.OutOrStdout(), "Its service is still there, %s: `%s uninstall` removes it\n", installed.Name, g.command())
		}
		return nil
	}
	if err != nil {
		return err
	}
	if purge && !yes {
		if err := confirmPurge(cmd, inst); err != nil {
			return err
		}
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
	if err = stopService(cmd.Context(), installed, purge, tree); err == nil {
		err = up.Down(cmd.Context(), inst, hosts, purge, tree)
	}
	tree.Close()
	if err != nil {
		return fmt.Errorf("%w\nRun `%s down` again: it goes on where it stopped", err, g.command())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Down in %.1fs.\n", tree.Elapsed().Seconds())
	if installed != nil && !purge {
		fmt.Fprintf(cmd.OutOrStdout(), "The plane is a service of this machine, %s: it starts again with the machine, its local hosts with it, and by `%[2]s up`. `%[2]s uninstall` ends that.\n", installed.Name, g.command())
	}
	return nil
}

// confirmPurge has the user of a terminal type the name of the plane.
func confirmPurge(cmd *cobra.Command, inst *instance.Instance) error {
	hosts, err := manager(inst)
	if err != nil {
		return err
	}
	list, err := hosts.List(cmd.Context())
	if err != nil {
		return err
	}
	return cli.Confirm(cmd, inst.Name, fmt.Sprintf("The data of plane %s in %s (https://127.0.0.1:%d), with its clusters, and the disks of its %d local hosts are deleted.", inst.Name, inst.Dir, inst.APIPort, len(list)))
}

// stopService has systemd stop the plane, which would start it again otherwise. With purge
// there is nothing left to start.
func stopService(ctx context.Context, installed *service.Service, purge bool, tree *progress.Tree) error {
	if installed == nil {
		return nil
	}
	step := tree.Step("service")
	step.Waitf("stopping %s", installed.Name)
	stop, done := installed.Stop, "stopped"
	if purge {
		stop, done = installed.Remove, "removed"
	}
	if err := stop(ctx); err != nil {
		step.Fail()
		return fmt.Errorf("service: %w", err)
	}
	step.Donef("%s", done)
	return nil
}
