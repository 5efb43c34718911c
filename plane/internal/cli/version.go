package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/slipway-dev/slipway/internal/version"
)

func versionCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := struct {
				Slipway    string `json:"slipway"`
				Kubernetes string `json:"kubernetes"`
				Go         string `json:"go"`
				Platform   string `json:"platform"`
			}{version.Version, componentversion.Get().GitVersion, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return result{object: info, table: func(out io.Writer, _ bool) error {
				_, err := fmt.Fprintf(out, "slipway %s (kube-apiserver %s, %s, %s)\n", info.Slipway, info.Kubernetes, info.Go, info.Platform)
				return err
			}}.write(cmd.OutOrStdout(), output)
		},
	}
	outputFlag(command, &output, outputTable, outputJSON, outputYAML)
	return command
}
