package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// bundleFlags say which directory of bundles a command is about.
type bundleFlags struct {
	program *Program
	dir     string
	// cluster that serves the directory.
	cluster managementFlags
}

func bundleCommand(p *Program) *cobra.Command {
	command := &cobra.Command{
		Use:     "bundle",
		Aliases: []string{"bundles"},
		Short:   "Load, list and remove host bundles that are served to hosts",
		Long: `Manage a directory of host bundles, each with the software of one Kubernetes version or
one version of slipway-agent. slipway-manager serves it to hosts with --host-bundle-dir.`,
	}
	if p.Local != nil {
		command.Long = `Manage the host bundles that a plane with --listen serves to hosts on other machines;
with --dir, those of a directory that slipway-manager serves.`
	}
	command.AddCommand(bundleLoadCommand(p), bundleListCommand(p), bundleRemoveCommand(p))
	return command
}

func (f *bundleFlags) bind(command *cobra.Command) {
	usage := "directory of the bundles; required"
	if f.program.Local != nil {
		usage = "directory of the bundles (default: this machine's plane)"
	}
	command.Flags().StringVar(&f.dir, "dir", "", usage)
}

// bindCluster adds the flags of commands that change what hosts can install.
func (f *bundleFlags) bindCluster(command *cobra.Command) {
	f.bind(command)
	f.cluster = managementFlags{program: f.program}
	command.Flags().StringVar(&f.cluster.kubeconfig, "kubeconfig", "", "with --dir: kubeconfig of the management cluster that serves it, whose KubernetesReleases follow; none do when empty")
	command.Flags().StringVar(&f.cluster.overrides.CurrentContext, "context", "", "with --dir: context of the kubeconfig")
}

// store is the directory that is meant.
func (f *bundleFlags) store() (hostbundle.Store, error) {
	if f.dir != "" {
		return hostbundle.Store{Dir: f.dir}, nil
	}
	if f.program.Local == nil {
		return hostbundle.Store{}, errors.New("--dir: want the directory of the bundles, which slipway-manager serves with --host-bundle-dir")
	}
	plane, err := f.program.Local.Plane()
	if err != nil {
		return hostbundle.Store{}, fmt.Errorf("%w; for the directory of a slipway-manager there is --dir", err)
	}
	return hostbundle.Store{Dir: filepath.Join(plane.Dir(), hostbundle.PlaneStore)}, nil
}

func bundleLoadCommand(p *Program) *cobra.Command {
	f := &bundleFlags{program: p}
	var versions, agents []string
	var publicKey, output string
	command := &cobra.Command{
		Use:   "load DIRECTORY|ARCHIVE",
		Short: "Copy host bundles into the served directory",
		Long: `Copy host bundles into the served directory, from the directory that make host-bundle
wrote or from host-bundle.tar of a release. Existing content is compared and not copied
again. All content is compared with its digests; with --public-key a signature by that
key must be valid, too. Hosts verify the signature themselves in any case.

A KubernetesRelease for each version makes it installable on hosts. An AgentRelease lets
slipway-manager of that version update the agents that update themselves, one failure
domain at a time. Both are written into the plane or, with --dir, into the management
cluster of --kubeconfig or --context.`,
		Example: `  slipway bundle load host-bundle.tar --public-key hostbundle.pub
  slipway bundle load /media/hostbundle --kubernetes-version v1.36.3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := f.store()
			if err != nil {
				return err
			}
			keys, err := readPublicKeys(publicKey)
			if err != nil {
				return err
			}
			releases, err := f.releases(cmd)
			if err != nil {
				return err
			}
			from, done, err := openBundles(args[0], store.Dir)
			if err != nil {
				return err
			}
			for _, version := range agents {
				versions = append(versions, hostbundle.AgentTag(version))
			}
			loaded, err := store.Load(from, keys, versions...)
			if err = errors.Join(err, done()); err != nil {
				return err
			}
			if releases != nil {
				if err := publish(cmd.Context(), releases, loaded); err != nil {
					return err
				}
			}
			return bundlesList(loaded).result().write(cmd.OutOrStdout(), output)
		},
	}
	f.bindCluster(command)
	command.Flags().StringSliceVar(&versions, "kubernetes-version", nil, "Kubernetes versions to load; all of the source when this and --agent-version are empty")
	command.Flags().StringSliceVar(&agents, "agent-version", nil, "versions of slipway-agent to load")
	command.Flags().StringVar(&publicKey, "public-key", "", "file with the public keys of which one must have signed the bundles; not verified here when empty")
	outputFlag(command, &output, listFormats...)
	return command
}

func readPublicKeys(path string) (*hostbundle.PublicKeys, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--public-key: %w", err)
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		return nil, fmt.Errorf("--public-key %s: %w", path, err)
	}
	return &keys, nil
}

// openBundles opens a directory, or an archive, which is taken out beside the store; done
// takes that away.
func openBundles(source, store string) (d *hostbundle.Directory, done func() error, err error) {
	done = func() error { return nil }
	info, err := os.Stat(source)
	if err != nil {
		return nil, done, err
	}
	if !info.IsDir() {
		if err := os.MkdirAll(filepath.Dir(store), 0o755); err != nil {
			return nil, done, err
		}
		archive := source
		if source, err = os.MkdirTemp(filepath.Dir(store), ".host-bundle-"); err != nil {
			return nil, done, err
		}
		extracted := source
		done = func() error { return os.RemoveAll(extracted) }
		if err := hostbundle.Extract(archive, source); err != nil {
			return nil, done, errors.Join(err, done())
		}
	}
	if d, err = hostbundle.OpenDirectory(source); err != nil {
		return nil, done, errors.Join(err, done())
	}
	return d, done, nil
}

func bundleListCommand(p *Program) *cobra.Command {
	f := &bundleFlags{program: p}
	var shown listFlags
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the loaded host bundles",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := f.store()
			if err != nil {
				return err
			}
			var damaged error
			err = showList(cmd, shown, func(context.Context) (list[bundleRow], error) {
				var there []hostbundle.Version
				there, damaged = store.List()
				return bundlesList(there), nil
			})
			// what is damaged does not hide the rest
			return errors.Join(err, damaged)
		},
	}
	f.bind(command)
	shown.bind(command)
	return command
}

func bundleRemoveCommand(p *Program) *cobra.Command {
	f := &bundleFlags{program: p}
	command := &cobra.Command{
		Use:     "remove BUNDLE...",
		Aliases: []string{"delete", "rm"},
		Short:   "Remove host bundles from the served directory",
		Long: `Remove host bundles from the served directory, with content that no other bundle uses
and the KubernetesReleases and AgentReleases that bundle load wrote. Hosts keep what
they installed. Nothing is removed while a host is to install such a bundle.`,
		Example: `  slipway bundle remove v1.35.4 slipway-agent-v0.9.0`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := f.store()
			if err != nil {
				return err
			}
			slices.Sort(args)
			args = slices.Compact(args)
			if err := f.withdraw(cmd, store, args); err != nil {
				return err
			}
			if err := store.Remove(args...); err != nil {
				return err
			}
			for _, tag := range args {
				fmt.Fprintf(cmd.OutOrStdout(), "hostbundle/%s removed\n", tag)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			store, err := f.store()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			there, _ := store.List()
			var tags []string
			for _, v := range there {
				tags = append(tags, v.Tag)
			}
			return tags, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.bindCluster(command)
	return command
}

// bundleRow is a bundle as it is shown.
type bundleRow struct {
	Name string `json:"name"`
	// KubernetesVersion or AgentVersion that it brings.
	KubernetesVersion string   `json:"kubernetesVersion,omitempty"`
	AgentVersion      string   `json:"agentVersion,omitempty"`
	Architectures     []string `json:"architectures"`
	// Size of all of it in bytes; bundles share some.
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

func bundlesList(versions []hostbundle.Version) list[bundleRow] {
	rows := []bundleRow{}
	for _, v := range versions {
		row := bundleRow{Name: v.Tag, Architectures: v.Architectures, Size: v.Size(), Digest: v.Digest.String()}
		if version, agent := hostbundle.AgentVersion(v.Tag); agent {
			row.AgentVersion = version
		} else {
			row.KubernetesVersion = version
		}
		rows = append(rows, row)
	}
	return list[bundleRow]{rows: rows, empty: "No bundles are loaded", name: func(r *bundleRow) string { return "hostbundle/" + r.Name }, table: func(out *display.Page, rows []bundleRow, wide bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		header := "NAME\tBRINGS\tARCHITECTURES\tSIZE"
		if wide {
			header += "\tDIGEST"
		}
		fmt.Fprintln(w, header)
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d MiB", r.Name, hostbundle.Title(r.Name), strings.Join(r.Architectures, ","), r.Size>>20)
			if wide {
				fmt.Fprintf(w, "\t%s", r.Digest)
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	}}
}
