package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/extensionproject"
	"github.com/slipway-dev/slipway/internal/version"
)

func extensionInitCommand() *cobra.Command {
	var (
		dir, output string
		options     = extensionproject.Options{SDKVersion: version.Version}
	)
	command := &cobra.Command{
		Use:   "init NAME",
		Short: "Create the Go project of a runtime extension",
		Long: `Init creates the project of a runtime extension that answers the hooks in --hooks, with
a function for each: program, tests against the rules of the Runtime SDK, an image
without a Dockerfile, manifests with certificates by cert-manager, and a workflow for
CI. NAME becomes the name of the program, its Service and its registration.

It only writes files, into a folder that is empty or does not exist, and needs neither
Go nor a network.`,
		Example: `  slipway extension init quota --module example.com/platform/quota
  slipway extension init ntp --hooks DiscoverVariables,GeneratePatches
  slipway extension init quota --sdk ~/src/slipway/sdk`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			options.Name = args[0]
			if dir == "" {
				dir = options.Name
			}
			files, err := extensionproject.Render(options)
			if err != nil {
				return err
			}
			if err := extensionproject.Write(dir, files); err != nil {
				return err
			}
			return projectResult(dir, files).write(cmd.OutOrStdout(), output)
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Module, "module", "", "path of the Go module; example.com/NAME when empty")
	flags.StringSliceVar(&options.Hooks, "hooks", []string{"BeforeClusterCreate"}, "hooks that the extension answers, all of Cluster API or all of the slipway provider")
	flags.StringVar(&dir, "dir", "", "folder of the project; NAME when empty")
	flags.StringVar(&options.SDK, "sdk", "", "folder of the SDK in a clone of Slipway, which the project uses while no version of it is published")
	_ = command.MarkFlagDirname("dir")
	_ = command.MarkFlagDirname("sdk")
	completeFlag(command, "module", nil)
	_ = command.RegisterFlagCompletionFunc("hooks", completeList(extensionproject.Hooks()))
	outputFlag(command, &output, outputTable, outputJSON, outputYAML)
	return command
}

// projectResult tells what was written, and what comes next.
func projectResult(dir string, files []extensionproject.File) result {
	out := struct {
		Directory string   `json:"directory"`
		Files     []string `json:"files"`
	}{Directory: dir}
	for _, f := range files {
		out.Files = append(out.Files, f.Path)
	}
	return result{object: out, table: func(w *display.Page, _ bool) error {
		for _, path := range out.Files {
			fmt.Fprintln(w, path)
		}
		_, err := fmt.Fprintf(w, "\nThe project is in %s. Next: `cd %[1]s && go mod tidy && make test`; its README tells the rest.\n", dir)
		return err
	}}
}
