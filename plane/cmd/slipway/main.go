// Command slipway is the one binary of Slipway: it runs the plane, brings up
// local hosts, and shows what there is.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slipway-dev/slipway/plane/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends it at once, whatever it is doing.
	context.AfterFunc(ctx, stop)
	err := cli.Root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	code, silent := cli.ExitCode(err)
	if !silent {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(code)
}
