// Command slipway is the one binary of Slipway: it runs the plane, brings up
// local hosts, and shows what there is.
package main

import (
	"os"

	shared "github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/plane/internal/cli"
)

func main() { os.Exit(shared.Main(cli.Root())) }
