package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/plane/internal/instance"
)

// Environment variables that give flags their defaults.
const (
	envStateDir = "SLIPWAY_STATE_DIR"
	envBundle   = "SLIPWAY_BUNDLE"
)

// Root returns the slipway command.
func Root() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Turn Linux hosts into Kubernetes clusters, managed by Cluster API",
		Long: `Slipway turns the Linux hosts you already have into Kubernetes clusters, managed
by Cluster API. "slipway up" brings a whole plane and a cluster to this machine.`,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// Packages of Kubernetes register flags of their own there, which cobra adds.
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&g.stateDir, "state-dir", cmp.Or(os.Getenv(envStateDir), instance.DefaultStateDir),
		"directory in which the plane keeps everything; $"+envStateDir+" when set")
	root.AddGroup(&cobra.Group{ID: "use", Title: "Commands:"}, &cobra.Group{ID: "more", Title: "Other commands:"})
	for _, command := range []*cobra.Command{upCommand(g), downCommand(g), statusCommand(g), kubeconfigCommand(g), hostCommand(g), approveCommand(g), lifecycleCommand(g), checkCommand(g)} {
		command.GroupID = "use"
		root.AddCommand(command)
	}
	for _, command := range []*cobra.Command{serveCommand(g), openapiCommand(), versionCommand()} {
		command.GroupID = "more"
		root.AddCommand(command)
	}
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	return root
}

// defaultBundle is the node bundle beside the executable.
func defaultBundle() string {
	if dir := os.Getenv(envBundle); dir != "" {
		return dir
	}
	self, err := os.Executable()
	if err != nil {
		return "bundle"
	}
	return filepath.Join(filepath.Dir(self), "bundle")
}
