package cli

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/sdk/conformance"

	"github.com/slipway-dev/slipway/internal/display"
)

func checkExtensionCommand() *cobra.Command {
	var (
		output, catalog, caFile, requests string
		options                           conformance.Options
		strict                            bool
	)
	command := &cobra.Command{
		Use:   "extension URL",
		Short: "Check a runtime extension, in any language, over HTTPS",
		Long: `Check calls a running runtime extension as a manager does and applies the rules of the
Runtime SDK and its guidelines for authors: TLS, a stable discovery, and for each
handler timely answers to requests about an example cluster, equal answers to equal
requests in sequence and in parallel, requests of later releases, and bad input. A
handler that these requests do not exercise gets a warning; --requests adds others. The
handlers run for real, with example objects: use an extension that can do no harm.

It exits with 0 when all checks pass, 2 when one fails, and 1 when the extension cannot
be checked. Warnings fail nothing without --strict.`,
		Example: "  slipway check extension https://localhost:9443 --ca-file ca.crt",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if options.Catalog, err = hookdocs.Catalog(catalog); err != nil {
				return err
			}
			if caFile != "" {
				if options.CABundle, err = os.ReadFile(caFile); err != nil {
					return fmt.Errorf("--ca-file: %w", err)
				}
			}
			if requests != "" {
				if info, err := os.Stat(requests); err != nil || !info.IsDir() {
					return fmt.Errorf("--requests: %s is not a directory", requests)
				}
				options.Requests = os.DirFS(requests)
			}
			options.URL = args[0]
			report, err := conformance.Check(cmd.Context(), options)
			if err != nil {
				return err
			}
			if err := reportResult(report).write(cmd.OutOrStdout(), output); err != nil {
				return fmt.Errorf("write the results: %w", err)
			}
			if report.Failed() || strict && report.Warnings() > 0 {
				return &ExitError{Code: exitFindings}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&caFile, "ca-file", "", "PEM file with the CAs of the extension; those of the system when empty")
	flags.StringVar(&options.CertFile, "cert-file", "", "PEM file with a client certificate; none when empty")
	flags.StringVar(&options.KeyFile, "key-file", "", "PEM file with its key")
	flags.StringVar(&catalog, "catalog", hookdocs.All, "hooks that the extension may implement: "+hookdocs.CAPI+", "+hookdocs.Host+" or "+hookdocs.All)
	flags.StringVar(&requests, "requests", "", "directory with more requests, in files HOOK.json and HOOK-*.json, such as GeneratePatches-gpu.json")
	flags.BoolVar(&strict, "strict", false, "let warnings fail the check, too")
	completeFlag(command, "catalog", hookdocs.Names())
	outputFlag(command, &output, outputTable, outputJSON, outputYAML)
	return command
}

func writeReport(w io.Writer, report *conformance.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tCHECK\tMESSAGE")
	failed := 0
	for _, result := range report.Results {
		verdict, message := "ok", ""
		switch {
		case result.Err != nil:
			failed++
			verdict, message = "FAIL", result.Err.Error()
		case result.Warning != "":
			verdict, message = "warn", result.Warning
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", verdict, result.Name, message)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d checks: %d failed, %d with a warning\n", len(report.Results), failed, report.Warnings())
	return err
}

// checkResult is one check in the JSON output, which is an API.
type checkResult struct {
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Message string `json:"message,omitempty"`
	// Warning is advice that a check which passed gives.
	Warning string `json:"warning,omitempty"`
}

func reportResult(report *conformance.Report) result {
	out := struct {
		OK     bool          `json:"ok"`
		Checks []checkResult `json:"checks"`
	}{OK: !report.Failed(), Checks: []checkResult{}}
	for _, r := range report.Results {
		check := checkResult{Check: r.Name, OK: r.Err == nil, Warning: r.Warning}
		if r.Err != nil {
			check.Message = r.Err.Error()
		}
		out.Checks = append(out.Checks, check)
	}
	return result{object: out, table: func(w *display.Page, _ bool) error { return writeReport(w, report) }}
}
