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

// pluginName is the name under which kubectl finds the binary, for `kubectl slipway`.
const pluginName = "kubectl-slipway"

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
	if filepath.Base(os.Args[0]) == pluginName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl slipway"}
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
	refuseUnknown(root)
	return root
}

// refuseUnknown makes the name of an unknown subcommand an error at every level. Cobra
// itself does so for the root only; elsewhere it shows the help and ends with 0, which
// a script takes for success.
func refuseUnknown(root *cobra.Command) {
	for _, command := range root.Commands() {
		if !command.HasSubCommands() {
			continue
		}
		if command.Runnable() {
			refuseUnknown(command) // does something itself and refuses arguments
			continue
		}
		command.Args = knownSubcommand
		command.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		refuseUnknown(command)
	}
	if root.HasParent() {
		return
	}
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		return knownSubcommand(about, rest)
	}
}

// knownSubcommand refuses what is left of a command line once all names of commands in it
// are gone.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = max(cmd.SuggestionsMinimumDistance, 2) // cobra's own default for the root
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(", did you mean %q?", near[0])
	}
	return fmt.Errorf("unknown command %q for %q%s; see `%s --help`", args[0], cmd.CommandPath(), hint, cmd.CommandPath())
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
