// Command slipway-agent runs on each host: it enrolls the host, keeps it in touch
// with the management cluster, bootstraps and resets it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/agent/preflight"
	"github.com/slipway-dev/slipway/internal/agent/run"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/agent/uninstall"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
	"github.com/slipway-dev/slipway/internal/version"
)

const usage = `Usage: slipway-agent COMMAND [FLAGS]

Commands:
  join       enroll this host: write its configuration and bootstrap kubeconfig
  run        run the agent (the default under a service manager)
  preflight  tell what this host lacks to become a node; changes nothing
  software   install, list and uninstall what a node needs, from a signed bundle
  uninstall  take the agent and its software off this host, and tell what is left
  status     tell how the agent stands: connection, certificate, journal, and what
             it waits for
  version    print the version, as --version does
  help       print this, as --help does

"slipway-agent join --help", and that of software and uninstall, show the flags of
these; the others have those below. preflight exits with 0 when the host can be
enrolled, 1 when it cannot, 2 when it was called wrongly.

Flags:
`

// logHandlers are named as Kubernetes' components name the formats of their logs.
var logHandlers = map[string]slog.Handler{
	"text": slog.NewTextHandler(os.Stdout, nil),
	"json": slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: asKubernetes}),
}

// asKubernetes tells the time of a line as Kubernetes' components do: in milliseconds.
func asKubernetes(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Float64("ts", float64(a.Value.Time().UnixMicro())/1000)
	}
	return a
}

// errNotFit is the outcome of a preflight that found errors; they are printed already.
var errNotFit = errors.New("not fit")

func main() {
	flags := flag.NewFlagSet("slipway-agent", flag.ExitOnError)
	path := flags.String("config", config.DefaultPath, "file with the configuration of the agent")
	root := flags.String("root", "", "directory that stands for / of the host (for tests)")
	format := flags.String("o", preflight.FormatTable, "output of preflight and status: table or json")
	port := flags.Int("control-plane-port", 0, "port of the control-plane endpoint that preflight looks at; when 0, that of the host's last operation, else 6443")
	logging := flags.String("logging-format", "text", "log of run: text, or json for one object a line")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if len(os.Args) < 2 {
		flags.Usage()
		os.Exit(2)
	}
	switch os.Args[1] {
	case "join":
		os.Exit(joinHost(os.Args[2:]))
	case "software":
		os.Exit(manageSoftware(os.Args[2:]))
	case "uninstall":
		os.Exit(uninstallAgent(os.Args[2:]))
	case "help", "--help", "-help", "-h":
		flags.SetOutput(os.Stdout)
		flags.Usage()
		return
	case "version", "--version", "-version":
		fmt.Println(version.Version)
		return
	}
	_ = flags.Parse(os.Args[2:])
	if flags.NArg() > 0 || *format != preflight.FormatTable && *format != preflight.FormatJSON {
		fmt.Fprintf(os.Stderr, "slipway-agent: want no arguments, not %q, and -o table or json, not %q\n", flags.Args(), *format)
		os.Exit(2)
	}
	handler, ok := logHandlers[*logging]
	if !ok {
		fmt.Fprintf(os.Stderr, "slipway-agent: want -logging-format text or json, not %q\n", *logging)
		os.Exit(2)
	}
	log := slog.New(handler)
	err := execute(os.Args[1], *path, *format, *port, log, hostfs.At(*root))
	switch {
	case err == nil:
		return
	case errors.Is(err, errNotFit):
	case os.Args[1] == "run":
		// who reads its log by machine reads there why it ended
		log.Error("the agent cannot go on", "err", err)
	default:
		fmt.Fprintln(os.Stderr, "slipway-agent:", err)
	}
	os.Exit(1)
}

// joinHost returns the exit code: 2 when it was called wrongly.
func joinHost(args []string) int {
	options, err := join.Parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "slipway-agent join:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := join.Run(ctx, options); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-agent join:", err)
		return 1
	}
	fmt.Printf("%s is the management cluster of this host. See what it lacks with `slipway-agent preflight`, then run `systemctl enable --now slipway-agent`.\n", options.Server)
	return 0
}

// manageSoftware returns the exit code.
func manageSoftware(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := software.Command(ctx, args, os.Stdout, os.Stderr, bundlesOfManagement)
	code := software.ExitCode(err)
	switch {
	case code == 0:
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "slipway-agent software: interrupted; the same command goes on")
	default:
		fmt.Fprintln(os.Stderr, "slipway-agent software:", err)
	}
	return code
}

// bundlesOfManagement is where the management cluster of this host serves host bundles.
func bundlesOfManagement(ctx context.Context, configPath string) (registry.Options, error) {
	c, err := config.Load(cmp.Or(configPath, config.DefaultPath))
	if err != nil {
		return registry.Options{}, err
	}
	return run.ManagementBundles(ctx, c.StateDir)
}

// uninstallAgent returns the exit code: 2 when it was called wrongly, 3 on a node.
func uninstallAgent(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := uninstall.Command(ctx, args, os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, uninstall.ErrLeft):
		return 1
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "slipway-agent uninstall: interrupted; the same command goes on")
		return 1
	}
	fmt.Fprintln(os.Stderr, "slipway-agent uninstall:", err)
	var serves *uninstall.ServesError
	switch {
	case errors.Is(err, uninstall.ErrUsage):
		return 2
	case errors.As(err, &serves):
		return 3
	}
	return 1
}

func execute(name, path, format string, port int, log *slog.Logger, root hostfs.Root) error {
	c, err := config.Load(path)
	switch {
	case name == "preflight":
		return check(c, err, format, port, root)
	case name != "run" && name != "status":
		return fmt.Errorf("%q is no command; use join, run, preflight, software, uninstall, status or version", name)
	case err != nil:
		return err
	case name == "status":
		status, err := run.ReadStatus(context.Background(), c)
		if err != nil {
			return err
		}
		return status.Write(os.Stdout, format)
	}
	// The agent is idle nearly always: a small heap is worth more than the time
	// of collecting it.
	debug.SetGCPercent(40)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return (&run.Agent{Config: c, Root: root, Log: log}).Run(ctx)
}

// check looks at a host that may have no configuration yet.
func check(c *config.AgentConfiguration, configErr error, format string, port int, root hostfs.Root) error {
	if configErr != nil {
		c = config.Default()
	}
	if port == 0 {
		// a host without an agent has no journal, and one that nobody can read is told elsewhere
		state, _ := journal.Read(root.Path(filepath.Join(c.StateDir, config.JournalFile)))
		port = int(state.VirtualIPPort)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	report := preflight.Run(ctx, preflight.System{FS: root, Runner: command.System{Identity: "preflight"}}, c, configErr, port)
	if err := report.Write(os.Stdout, format); err != nil {
		return err
	}
	if report.Errors > 0 {
		return errNotFit
	}
	return nil
}
