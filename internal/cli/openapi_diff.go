package cli

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/sdk/openapi"

	"github.com/slipway-dev/slipway/internal/display"
)

func openapiDiffCommand() *cobra.Command {
	var catalog, output string
	command := &cobra.Command{
		Use:   "diff OLD [NEW]",
		Short: "Compare two OpenAPI documents of runtime hooks",
		Long: `Diff compares two OpenAPI documents, JSON or YAML, such as those of two releases.
Without NEW it compares with what this release calls. It lists what breaks callers or
extensions, which rule #1 of the Runtime SDK allows only with a new version of a hook,
what was added, and what was deprecated.

It exits with 0 when nothing breaks, 2 when something does, and 1 when the documents
cannot be read.`,
		Example: `  slipway openapi diff runtime-sdk-openapi.yaml
  slipway openapi diff v0.1.0.yaml v0.2.0.yaml -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			old, err := readHookDocument(args[0])
			if err != nil {
				return err
			}
			current, err := hookdocs.Document(catalog)
			if len(args) == 2 {
				current, err = readHookDocument(args[1])
			}
			if err != nil {
				return err
			}
			difference := openapi.Diff(old, current)
			if err := diffResult(difference).write(cmd.OutOrStdout(), output); err != nil {
				return fmt.Errorf("write the changes: %w", err)
			}
			if len(difference.Breaking) > 0 {
				return &ExitError{Code: exitFindings}
			}
			return nil
		},
	}
	command.Flags().StringVar(&catalog, "catalog", hookdocs.All, "hooks of this release to compare with: "+hookdocs.CAPI+", "+hookdocs.Host+" or "+hookdocs.All)
	completeFlag(command, "catalog", hookdocs.Names())
	outputFlag(command, &output, outputTable, outputJSON, outputYAML)
	return command
}

// readHookDocument reads an OpenAPI document that describes hooks.
func readHookDocument(file string) (*openapi.Document, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		return nil, fmt.Errorf("%s: neither JSON nor YAML: %w", file, err)
	}
	document, err := openapi.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(document.Paths) == 0 {
		return nil, fmt.Errorf("%s: the document describes no hook", file)
	}
	return document, nil
}

func diffResult(d openapi.Difference) result {
	return result{object: d, table: func(w *display.Page, _ bool) error {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "CHANGE\tMESSAGE")
		for _, part := range []struct {
			kind     string
			messages []string
		}{{"Breaking", d.Breaking}, {"Addition", d.Additions}, {"Deprecation", d.Deprecations}} {
			for _, message := range part.messages {
				fmt.Fprintf(table, "%s\t%s\n", part.kind, message)
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(w, "\n%d breaking, %d additions, %d deprecations\n", len(d.Breaking), len(d.Additions), len(d.Deprecations))
		return err
	}}
}
