package software

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

const usage = `Usage:
  slipway-agent software install --from DIR --public-key FILE [--kubernetes-version VERSION]
  slipway-agent software list [-o table|json]
  slipway-agent software uninstall [VERSION...]

install verifies a host bundle and puts it on this host, beside other versions. list
shows what is installed. uninstall takes versions away, all when none is named, and
leaves the file system as it was. All may be interrupted and run again.

Flags:
`

// ErrUsage is wrapped by the error of a command that was called wrongly.
var ErrUsage = errors.New("called wrongly")

// options of the commands.
type options struct {
	from, publicKey, version, format, root string
	args                                   []string
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("slipway-agent software", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.from, "from", "", "directory with host bundles, an OCI image layout")
	flags.StringVar(&o.publicKey, "public-key", "", "file with the public keys of which one must have signed the bundle")
	flags.StringVar(&o.version, "kubernetes-version", "", "version to install; the newest of the directory when empty")
	flags.StringVar(&o.format, "o", "table", "output of list: table or json")
	flags.StringVar(&o.root, "root", "", "directory that stands for / of the host, such as a mounted disk; nothing is started then")
	err := flags.Parse(args)
	o.args = flags.Args()
	return o, err
}

// Command runs what follows "software" on the command line. Results go to out, progress
// and help to log.
func Command(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	name := args[0]
	if !strings.HasPrefix(name, "-") {
		args = args[1:]
	}
	o, err := parse(args, log)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUsage, err)
	case name != "uninstall" && len(o.args) > 0:
		return fmt.Errorf("%w: %s takes no arguments, not %q", ErrUsage, name, o.args)
	case o.root != "" && !filepath.IsAbs(o.root):
		return fmt.Errorf("%w: --root: want an absolute path, not %q", ErrUsage, o.root)
	}
	h := &Host{Root: hostfs.Root(strings.TrimSuffix(o.root, "/"))}
	if _, err := os.Stat("/run/systemd/system"); err == nil && h.Root == "" {
		h.Services = &Services{Runner: command.System{Identity: "software", Log: log}, Tell: func(c string) { fmt.Fprintln(log, c) }}
	}
	h.Progress = func(done, all int, what string) { fmt.Fprintf(log, "[%d/%d] %s\n", done, all, what) }
	switch name {
	case "install":
		return install(ctx, h, o, out)
	case "list":
		return list(h, o, out)
	case "uninstall":
		return uninstall(ctx, h, o, out)
	}
	return fmt.Errorf("%w: %q is no command of software; use install, list or uninstall", ErrUsage, name)
}

func install(ctx context.Context, h *Host, o options, out io.Writer) error {
	if o.from == "" || o.publicKey == "" {
		return fmt.Errorf("%w: install needs --from and --public-key", ErrUsage)
	}
	data, err := os.ReadFile(o.publicKey)
	if err != nil {
		return fmt.Errorf("--public-key: %w", err)
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		return fmt.Errorf("--public-key %s: %w", o.publicKey, err)
	}
	d, err := hostbundle.OpenDirectory(o.from)
	if err != nil {
		return err
	}
	if versions := d.Versions(); o.version == "" && len(versions) > 0 {
		o.version = versions[len(versions)-1]
	}
	b, err := d.Bundle(o.version, runtime.GOARCH, keys)
	if err != nil {
		return err
	}
	if err := h.Install(ctx, b); err != nil {
		return err
	}
	fmt.Fprintf(out, "Kubernetes %s is installed. See what the host lacks with `slipway-agent preflight`.\n", b.KubernetesVersion)
	return nil
}

func uninstall(ctx context.Context, h *Host, o options, out io.Writer) error {
	result, err := h.Uninstall(ctx, o.args...)
	if err != nil {
		return err
	}
	for _, path := range result.Kept {
		fmt.Fprintf(out, "kept %s: somebody else changed it, or has files in it\n", path)
	}
	if len(result.Kept) == 0 {
		fmt.Fprintln(out, "The file system is as it was.")
	}
	return nil
}

// listed is a version as `list -o json` shows it.
type listed struct {
	KubernetesVersion string            `json:"kubernetesVersion"`
	Architecture      string            `json:"architecture"`
	State             State             `json:"state"`
	Digest            string            `json:"digest"`
	Components        map[string]string `json:"components"`
}

func list(h *Host, o options, out io.Writer) error {
	releases, err := h.Installed()
	if err != nil {
		return err
	}
	all := []listed{}
	for _, r := range releases {
		l := listed{KubernetesVersion: r.KubernetesVersion, Architecture: r.Architecture, State: r.State, Digest: r.Digest.String(), Components: map[string]string{}}
		for _, c := range r.Components {
			l.Components[c.Name] = c.Version
		}
		all = append(all, l)
	}
	switch o.format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string][]listed{"releases": all})
	case "table":
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "KUBERNETES\tSTATE\tCONTAINERD\tRUNC\tDIGEST")
		for _, l := range all {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", l.KubernetesVersion, l.State, l.Components["containerd"], l.Components["runc"], l.Digest)
		}
		return table.Flush()
	}
	return fmt.Errorf("%w: -o %q: want table or json", ErrUsage, o.format)
}
