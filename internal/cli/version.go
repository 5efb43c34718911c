package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/version"
)

func versionCommand(p *Program) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := struct {
				Slipway    string `json:"slipway"`
				Kubernetes string `json:"kubernetes,omitempty"`
				Go         string `json:"go"`
				Platform   string `json:"platform"`
			}{version.Version, p.Kubernetes, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return result{object: info, table: func(out *display.Page, _ bool) error {
				inside := ""
				if info.Kubernetes != "" {
					inside = "kube-apiserver " + info.Kubernetes + ", "
				}
				_, err := fmt.Fprintf(out, "%s %s (%s%s, %s)\n", p.Name, info.Slipway, inside, info.Go, info.Platform)
				return err
			}}.write(cmd.OutOrStdout(), output)
		},
	}
	outputFlag(command, &output, outputTable, outputJSON, outputYAML)
	return command
}
