package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/providercheck"
)

// exitFindings is the exit code of a check that found something.
const exitFindings = 2

func checkCommand(p *Program) *cobra.Command {
	command := &cobra.Command{
		Use:   "check",
		Short: "Check releases and extensions against the contracts of Cluster API",
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
control-plane and IPAM providers. It needs no cluster. An error is what clusterctl, the
API server or Cluster API refuses, a warning what a contract recommends or a value that
users do not expect, a note what a contract leaves open.

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
			checked, err := abandonable(cmd.Context(), func(ctx context.Context) (checked providercheck.Results, err error) {
				releases, err := source.Releases(ctx)
				for _, release := range releases {
					checked = append(checked, providercheck.NewResult(release, filter))
				}
				return checked, err
			})
			if err != nil {
				return err
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

// abandonable computes a result, and stops to wait for it when the context ends: a parser in the
// middle of a large file looks at none. Work without effects may go on until the process ends.
func abandonable[T any](ctx context.Context, compute func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := compute(ctx)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func writeChecked(out io.Writer, checked providercheck.Results, format string) error {
	if format == outputSARIF {
		return checked.WriteSARIF(out)
	}
	return result{object: checked, table: func(w *display.Page, _ bool) error { return checked.WriteText(w) }}.write(out, format)
}
