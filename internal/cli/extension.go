package cli

import "github.com/spf13/cobra"

func extensionCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "extension",
		Short: "Create a runtime extension",
	}
	command.AddCommand(extensionInitCommand())
	return command
}
