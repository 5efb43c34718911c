package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/plane/internal/localhost"
)

func hostShellCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "shell HOST [-- COMMAND...]",
		Short: "Run a shell, or a command, inside a local host",
		Example: `  slipway host shell host-1
  slipway host shell host-1 -- systemctl status kubelet`,
		Args:              hostArgs(1, -1),
		ValidArgsFunction: completeHosts(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			inst, err := g.open()
			if err != nil {
				return err
			}
			m, err := manager(inst)
			if err != nil {
				return err
			}
			argv := args[1:]
			if len(argv) == 0 {
				argv = []string{"/bin/bash", "-l"}
			}
			code, err := m.Exec(cmd.Context(), args[0], argv, localhost.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
			if err == nil && code != 0 {
				return &cli.ExitError{Code: code}
			}
			return err
		},
	}
}
