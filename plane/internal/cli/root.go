package cli

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/plane/internal/instance"
)

// Environment variables that give flags their defaults.
const (
	envStateDir = "SLIPWAY_STATE_DIR"
	envBundle   = "SLIPWAY_BUNDLE"
)

// global are the flags every command has.
type global struct {
	stateDir string
}

func (g *global) open() (*instance.Instance, error) { return instance.Open(g.stateDir) }

// Root returns the slipway command.
func Root() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Turn Linux hosts into Kubernetes clusters, managed by Cluster API",
		Long: `Slipway turns the Linux hosts you already have into Kubernetes clusters, managed
by Cluster API. "slipway up" brings a whole plane and a cluster to this machine.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&g.stateDir, "state-dir", cmp.Or(os.Getenv(envStateDir), instance.DefaultStateDir),
		"directory in which the plane keeps everything; $"+envStateDir+" when set")
	root.AddGroup(&cobra.Group{ID: "use", Title: "Commands:"}, &cobra.Group{ID: "more", Title: "Other commands:"})
	for _, command := range []*cobra.Command{upCommand(g), downCommand(g), statusCommand(g), kubeconfigCommand(g), hostCommand(g)} {
		command.GroupID = "use"
		root.AddCommand(command)
	}
	for _, command := range []*cobra.Command{serveCommand(g), versionCommand()} {
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
