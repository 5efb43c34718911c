// Command kubectl-slipway is the command line of Slipway for any management cluster, as
// a plugin of kubectl: `kubectl slipway`. It runs no plane, so it needs neither Linux
// nor root.
package main

import (
	"os"

	"github.com/slipway-dev/slipway/internal/cli"
)

func main() { os.Exit(cli.Main(cli.Root(cli.Program{Name: cli.PluginName}))) }
