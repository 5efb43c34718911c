package cli

import (
	"fmt"
	"io"
	"os"

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
		source           providercheck.Source
		output, severity string
		strict           bool
		rules            []string
	)
	command := &cobra.Command{
		Use:   "provider DIR|FILE|URL",
		Short: "Check a provider's release against the provider contracts",
		Long: `Check reads the release of any Cluster API provider and applies the rules of
clusterctl's provider contract and of the contracts for infrastructure, bootstrap,
control-plane and IPAM providers. It needs no cluster. What a contract says must be is
an error, what it recommends a warning, what it leaves open a note.

The release is one of

  REPOSITORY/TYPE-NAME/VERSION  a release in a repository of clusterctl
  DIR                           the files of a release as a code host has them, of one
                                provider or several; --release names the version when
                                the directory does not
  FILE                          the components, or a template: the rules of a whole
                                release are left out
  https://github.com/OWNER/REPOSITORY/releases/VERSION
                                a release on GitHub, or latest; GITHUB_TOKEN and
                                GITHUB_API_URL count
  https://HOST/.../VERSION/TYPE-components.yaml
                                a components file on any server, with the files beside
                                it that clusterctl asks for

It ends with 0 when there is no error, with 2 when there is one, and with 1 when the
release cannot be read.`,
		Example: `  slipway check provider out/repository/infrastructure-slipway/v0.1.0 -o sarif > findings.sarif
  slipway check provider https://github.com/kubernetes-sigs/cluster-api/releases/latest --severity error
  slipway check provider components.yaml --provider infrastructure-foo`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := providercheck.NewFilter(severity, rules)
			if err != nil {
				return err
			}
			source.Place, source.GitHubAPI, source.GitHubToken = args[0], os.Getenv("GITHUB_API_URL"), os.Getenv("GITHUB_TOKEN")
			releases, err := source.Releases(cmd.Context())
			if err != nil {
				return err
			}
			var checked providercheck.Results
			for _, release := range releases {
				checked = append(checked, providercheck.NewResult(release, filter))
			}
			if err := writeChecked(cmd.OutOrStdout(), checked, output); err != nil {
				return fmt.Errorf("write the findings: %w", err)
			}
			if checked.Fail(strict) {
				return &ExitError{Code: exitFindings}
			}
			return nil
		},
	}
	command.Flags().StringVar(&source.Provider, "provider", "", "label of the provider, such as infrastructure-foo, where the place does not tell it; of several providers, check this one")
	command.Flags().StringVar(&source.Version, "release", "", "version of the release, where the place does not tell it")
	command.Flags().BoolVar(&strict, "strict", false, "let warnings fail the check, too")
	command.Flags().StringVar(&severity, "severity", string(providercheck.May), "least severity to report: error, warning or note")
	command.Flags().StringSliceVar(&rules, "rule", nil, "report only this rule; may be given several times")
	completeFlag(command, "severity", []string{string(providercheck.Must), string(providercheck.Should), string(providercheck.May)})
	completeFlag(command, "rule", providercheck.RuleIDs())
	outputFlag(command, &output, outputTable, outputJSON, outputYAML, outputSARIF)
	return command
}

func writeChecked(out io.Writer, checked providercheck.Results, format string) error {
	if format == outputSARIF {
		return checked.WriteSARIF(out)
	}
	return result{object: checked, table: func(w io.Writer, _ bool) error { return checked.WriteText(w) }}.write(out, format)
}
