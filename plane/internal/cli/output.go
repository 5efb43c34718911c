package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Values of -o.
const (
	outputJSON = "json"
	outputWide = "wide"
	outputYAML = "yaml"
	// outputSARIF is what code hosts show beside the lines of a change.
	outputSARIF = "sarif"
)

// outputFlag adds -o with its completion; an unknown value is refused.
func outputFlag(command *cobra.Command, value *string, allowed ...string) {
	command.Flags().StringVarP(value, "output", "o", "", "output format: "+strings.Join(allowed, " or "))
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if *value != "" && !slices.Contains(allowed, *value) {
			return fmt.Errorf("--output %q: want %s", *value, strings.Join(allowed, " or "))
		}
		return run(cmd, args)
	}
}
