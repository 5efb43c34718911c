package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

// exitFindings is the exit code of a check that found something.
const exitFindings = 2

func checkCommand(p *Program) *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "Check what others made against the contracts of Cluster API",
	}
	command.AddCommand(checkProviderCommand(), checkExtensionCommand(), checkUpgradeCommand(p))
	return command
}

func checkProviderCommand() *cobra.Command {
	var (
		output, severity string
		strict           bool
		rules            []string
	)
	command := &cobra.Command{
		Use:   "provider DIR",
		Short: "Check a provider's release directory against the provider contracts",
		Long: `Check reads a release directory of any Cluster API provider,
<repository>/<type>-<name>/<version>, and applies the rules of clusterctl's provider
contract and of the contracts for infrastructure, bootstrap and control-plane
providers. It needs no cluster. What a contract says must be is an error, what it
recommends a warning, what it leaves open a note.

It ends with 0 when there is no error, with 2 when there is one, and with 1 when the
directory cannot be checked.`,
		Example: "  slipway check provider out/repository/infrastructure-slipway/v0.1.0 -o sarif > findings.sarif",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			release, err := providercheck.Load(args[0])
			if err != nil {
				return err
			}
			filter, err := providercheck.NewFilter(severity, rules)
			if err != nil {
				return err
			}
			checked := providercheck.NewResult(release, filter)
			if err := writeChecked(cmd.OutOrStdout(), checked, output); err != nil {
				return fmt.Errorf("write the findings: %w", err)
			}
			if checked.Errors > 0 || strict && checked.Warnings > 0 {
				return &ExitError{Code: exitFindings}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&strict, "strict", false, "let warnings fail the check, too")
	command.Flags().StringVar(&severity, "severity", string(providercheck.May), "least severity to report: error, warning or note")
	command.Flags().StringSliceVar(&rules, "rule", nil, "report only this rule; may be given several times")
	completeFlag(command, "severity", []string{string(providercheck.Must), string(providercheck.Should), string(providercheck.May)})
	completeFlag(command, "rule", providercheck.RuleIDs())
	outputFlag(command, &output, outputTable, outputJSON, outputYAML, outputSARIF)
	return command
}

func writeChecked(out io.Writer, checked providercheck.Result, format string) error {
	switch format {
	case outputJSON:
		return checked.WriteJSON(out)
	case outputSARIF:
		return checked.WriteSARIF(out)
	}
	return result{object: checked, table: func(w io.Writer, _ bool) error { return checked.WriteText(w) }}.write(out, format)
}
