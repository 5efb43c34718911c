package uninstall

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/software"
)

const usage = `Usage: slipway-agent uninstall [-o table|json]
       slipway-agent uninstall --check

Take this agent off the host for good: stop it, uninstall the software it installed,
remove its configuration, its state and its programs, and tell what is left. A host that
is a node is refused: delete its Machine first. "slipway host remove" does it from afar,
and deletes the Host. It may be interrupted and run again. It exits with 0 when nothing
is left, 1 when something is or it failed, 2 when it was called wrongly, 3 on a node.
With --check change nothing, and tell whether a package manager may take the program away.

Flags:
`

var (
	// ErrUsage is wrapped by the error of a command that was called wrongly.
	ErrUsage = errors.New("called wrongly")
	// ErrLeft means that something is left; what, is printed already.
	ErrLeft = errors.New("something is left")
)

// Command runs what follows "uninstall" on the command line. The report goes to out, help
// and progress to log.
func Command(ctx context.Context, args []string, out, log io.Writer) error {
	flags := flag.NewFlagSet("slipway-agent uninstall", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.Usage = func() {
		fmt.Fprint(log, usage)
		flags.PrintDefaults()
	}
	format := flags.String("o", "table", "output: table or json")
	check := flags.Bool("check", false, "change nothing: exit with 0 when the program alone may go, 3 on a node, 1 where software is left that it installed")
	root := flags.String("root", "", "directory that stands for / of the host, such as a mounted disk; nothing is stopped then")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUsage, err)
	case flags.NArg() > 0:
		return fmt.Errorf("%w: want no arguments, not %q", ErrUsage, flags.Args())
	case *format != "table" && *format != "json":
		return fmt.Errorf("%w: -o %q: want table or json", ErrUsage, *format)
	case *root != "" && !filepath.IsAbs(*root):
		return fmt.Errorf("%w: --root: want an absolute path, not %q", ErrUsage, *root)
	case hostfs.At(*root) == "" && os.Geteuid() != 0:
		return errors.New("this takes root: run it with sudo")
	}
	h, err := open(hostfs.At(*root), log)
	if err != nil {
		return err
	}
	if *check {
		return h.dispensable()
	}
	report, err := h.Run(ctx)
	if err != nil {
		return err
	}
	return report.write(out, *format)
}

// open looks how the agent of a host is configured.
func open(root hostfs.Root, log io.Writer) (*Host, error) {
	c, err := config.Load(root.Path(config.DefaultPath))
	if errors.Is(err, fs.ErrNotExist) {
		c, err = config.Default(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w; it names the state directory: mend it, or remove the file", err)
	}
	h := &Host{Root: root, Config: c, Software: &software.Host{Root: root}}
	if _, err := os.Stat("/run/systemd/system"); err == nil && root == "" {
		runner := command.System{Identity: "uninstall", Log: log}
		h.Systemctl = runner
		h.Software.Services = &software.Services{Runner: runner, Tell: func(c string) { fmt.Fprintln(log, c) }}
	}
	return h, nil
}

func (r Report) write(out io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			return err
		}
	} else {
		for _, l := range r.Left {
			fmt.Fprintf(out, "left %s: %s\n", l.Path, l.Why)
		}
		if len(r.Left) == 0 {
			fmt.Fprintln(out, "Nothing is left of slipway-agent. If its Host is still there, delete it.")
		}
	}
	if len(r.Left) > 0 {
		return ErrLeft
	}
	return nil
}
