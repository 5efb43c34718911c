package golden

import (
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/internal/cli"
)

// Every command of `kubectl slipway` with its flags, hidden ones as well. docs/reference has
// those of the programs and of `slipway`, with their help.
func TestFlags(t *testing.T) {
	t.Setenv("SLIPWAY_STATE_DIR", "")
	t.Setenv("SLIPWAY_HOST_BUNDLE", "")
	lines := map[string]bool{}
	root := cli.Root(cli.Program{Name: cli.PluginName})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	walk(root, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		hidden := ""
		if c.Hidden {
			hidden = " (hidden)"
		}
		lines[fmt.Sprintf("%s%s", c.CommandPath(), hidden)] = true
		c.Flags().VisitAll(func(f *pflag.Flag) {
			line := fmt.Sprintf("%s --%s %s", c.CommandPath(), f.Name, f.Value.Type())
			if f.Shorthand != "" {
				line += " -" + f.Shorthand
			}
			if f.DefValue != "" {
				line += " default " + f.DefValue
			}
			if f.Hidden {
				line += " (hidden)"
			}
			if f.Annotations[cobra.BashCompOneRequiredFlag] != nil {
				line += " (required)"
			}
			lines[line] = true
		})
	})
	compareSet(t, "flags.txt", lines, 100)
}
