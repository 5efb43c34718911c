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
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
)

const usage = `Usage:
  slipway-agent software install --from SOURCE... --public-key FILE [--kubernetes-version VERSION]
  slipway-agent software list [-o table|json]
  slipway-agent software uninstall [VERSION...]

install verifies a host bundle and puts it on this host, beside other versions. A source is

    DIRECTORY                         with host bundles, an OCI image layout
    oci://HOST[:PORT]/REPOSITORY      a registry; versions are tags. Give several for mirrors:
                                      they are asked in this order
    management                        the management cluster of this host, once it is enrolled

A download that was cut goes on where it was. list shows what is installed. uninstall takes
versions away, all when none is named, and leaves the file system as it was. All may be
interrupted and run again. The exit code is 2 for a command that was called wrongly, 28 where
the disk is or would be full, 75 while another of these commands is at work on the host, and 1
for all else.

Flags:
`

// ErrUsage is wrapped by the error of a command that was called wrongly.
var ErrUsage = errors.New("called wrongly")

// tellEvery is the least time between two words about a download, each of which an operation writes to disk.
const tellEvery = 5 * time.Second

// options of the commands.
type options struct {
	from                             []string
	publicKey, version, format, root string
	caFile, registryConfig, config   string
	args                             []string
	management                       func(ctx context.Context, configPath string) (registry.Options, error)
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("slipway-agent software", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.Func("from", "`source` of host bundles: a directory, oci://HOST/REPOSITORY, or management; may be given several times", func(source string) error {
		o.from = append(o.from, source)
		return nil
	})
	flags.StringVar(&o.caFile, "ca-file", "", "file with the CA of a registry, besides those of the system")
	flags.StringVar(&o.registryConfig, "registry-config", "", "file with credentials for registries, as docker login writes it")
	flags.StringVar(&o.config, "config", "", "configuration of the agent, which says where the management cluster is; /etc/slipway/agent.yaml when empty")
	flags.StringVar(&o.publicKey, "public-key", "", "file with the public keys of which one must have signed the bundle")
	flags.StringVar(&o.version, "kubernetes-version", "", "version to install; the newest of the source when empty")
	flags.StringVar(&o.format, "o", "table", "output of list: table or json")
	flags.StringVar(&o.root, "root", "", "directory that stands for / of the host, such as a mounted disk; nothing is started then")
	err := flags.Parse(args)
	o.args = flags.Args()
	return o, err
}

// Command runs what follows "software" on the command line. Results go to out, progress
// and help to log. management finds what serves bundles at the management cluster, by the
// agent's configuration.
func Command(ctx context.Context, args []string, out, log io.Writer, management func(ctx context.Context, configPath string) (registry.Options, error)) error {
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
	o.management = management
	h := &Host{Root: hostfs.At(o.root)}
	if _, err := os.Stat("/run/systemd/system"); err == nil && h.Root == "" {
		h.Services = &Services{Runner: command.System{Identity: "software", Log: log}, Tell: func(c string) { fmt.Fprintln(log, c) }}
	}
	h.Progress = func(done, all int, what string) { fmt.Fprintf(log, "[%d/%d] %s\n", done, all, what) }
	h.Fetching = progressOf(log)
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
	if len(o.from) == 0 || o.publicKey == "" {
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
	version, err := bring(ctx, h, o, keys)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Kubernetes %s is installed. See what the host lacks with `slipway-agent preflight`.\n", version)
	return nil
}

// bring installs the version from where the options say, and returns it.
func bring(ctx context.Context, h *Host, o options, keys hostbundle.PublicKeys) (string, error) {
	if len(o.from) == 1 && o.from[0] != config.ManagementSource && !strings.Contains(o.from[0], "://") {
		return fromDirectory(ctx, h, o, keys)
	}
	var sources []Source
	for i, from := range o.from {
		source, err := o.source(ctx, from, i < len(o.from)-1)
		if err != nil {
			return "", fmt.Errorf("--from %s: %w", from, err)
		}
		sources = append(sources, source)
	}
	return h.Fetch(ctx, Wanted{Version: o.version}, keys, sources...)
}

// source is one of those to ask; hasty says that there is another one after it.
func (o options) source(ctx context.Context, from string, hasty bool) (Source, error) {
	if from != config.ManagementSource {
		if !strings.HasPrefix(from, registry.Scheme) {
			return nil, fmt.Errorf("%w: want a directory alone, or sources that are %sHOST/REPOSITORY or %s", ErrUsage, registry.Scheme, config.ManagementSource)
		}
		return registry.New(registry.Options{Address: from, CAFile: o.caFile, ConfigFile: o.registryConfig, Hasty: hasty})
	}
	found, err := o.management(ctx, o.config)
	if err != nil {
		return nil, err
	}
	found.Hasty = hasty
	return registry.New(found)
}

func fromDirectory(ctx context.Context, h *Host, o options, keys hostbundle.PublicKeys) (string, error) {
	d, err := hostbundle.OpenDirectory(o.from[0])
	if err != nil {
		return "", err
	}
	if versions := d.Versions(); o.version == "" && len(versions) > 0 {
		o.version = versions[len(versions)-1]
	}
	b, err := d.Bundle(o.version, runtime.GOARCH, keys)
	if err != nil {
		return "", err
	}
	return o.version, h.Install(ctx, b)
}

// progressOf tells of downloads, not too often.
func progressOf(log io.Writer) func(c hostbundle.Component, have, size int64) {
	var last time.Time
	return func(c hostbundle.Component, have, size int64) {
		if have < size && time.Since(last) < tellEvery {
			return
		}
		last = time.Now()
		fmt.Fprintf(log, "fetched %d of %d MiB of %s %s\n", have>>20, size>>20, c.Name, c.Version)
	}
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
