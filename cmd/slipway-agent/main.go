// Command slipway-agent runs on each host: it enrols the host, keeps it in touch
// with the management cluster, bootstraps and resets it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/assembly"
	"github.com/slipway-dev/slipway/internal/agent/config"
	"github.com/slipway-dev/slipway/internal/agent/hostfs"
	"github.com/slipway-dev/slipway/internal/version"
)

const usage = `Usage: slipway-agent COMMAND [FLAGS]

Commands:
  run      run the agent (the default under a service manager)
  status   print what the agent's journal says
  version  print the version

Flags of run and status:
`

func main() {
	flags := flag.NewFlagSet("slipway-agent", flag.ExitOnError)
	path := flags.String("config", config.DefaultPath, "file with the configuration of the agent")
	root := flags.String("root", "", "directory that stands for / of the host (for tests)")
	flags.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		flags.PrintDefaults()
	}
	if len(os.Args) < 2 {
		flags.Usage()
		os.Exit(2)
	}
	_ = flags.Parse(os.Args[2:])
	if err := execute(os.Args[1], *path, hostfs.Root(*root)); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-agent:", err)
		os.Exit(1)
	}
}

func execute(command, path string, root hostfs.Root) error {
	if command == "version" {
		fmt.Println(version.Version)
		return nil
	}
	if command != "run" && command != "status" {
		return fmt.Errorf("%q is no command; use run, status or version", command)
	}
	c, err := config.Load(path)
	if err != nil {
		return err
	}
	if command == "status" {
		return assembly.Status(c, os.Stdout)
	}
	// The agent is idle nearly always: a small heap is worth more than the time
	// of collecting it.
	debug.SetGCPercent(40)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return (&assembly.Agent{Config: c, Root: root, Log: slog.New(slog.NewTextHandler(os.Stdout, nil))}).Run(ctx)
}
