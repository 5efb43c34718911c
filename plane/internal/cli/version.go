package cli

import (
	"encoding/json"
	"fmt"
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
			if output == outputJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "slipway %s (kube-apiserver %s, %s, %s)\n", info.Slipway, info.Kubernetes, info.Go, info.Platform)
			return err
		},
	}
	outputFlag(command, &output, outputJSON)
	return command
}
