package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/internal/support"
	"github.com/slipway-dev/slipway/internal/version"
)

func supportBundleCommand(p *Program) *cobra.Command {
	var (
		file     string
		journals bool
		all      bool
		since    time.Duration
		timeout  time.Duration
	)
	f := &managementFlags{program: p}
	command := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect a support bundle, with secrets redacted",
		Long: `Write an archive to share with support: a summary with the findings of
doctor, the objects of Cluster API and of Slipway with their events, the Nodes of
reachable clusters, the logs of the providers, and the logs and metrics of a plane of
this machine.

It reads with your own rights, and the archive names what these do not let it read. Of
Secrets it has only the names of their keys. Contents of Secrets that you may read,
fields for credentials, and what resembles a credential are replaced by REDACTED. Check
it all the same before you share it: it has names and addresses. Its mode is 0600.`,
		Example: "  slipway support-bundle -n prod --since 2h -o case-4711.tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := f.find(cmd)
			if err != nil {
				return err
			}
			now := time.Now()
			if file == "" {
				file = "slipway-support-" + now.UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			missing, err := writeBundle(ctx, file, cluster, support.Options{
				Namespace: f.namespace, Since: since, Journals: journals, Now: now,
				Versions: map[string]string{p.Name: version.Version, "kubernetes of " + p.Name: p.Kubernetes},
				Progress: func(stage string) { fmt.Fprintln(cmd.ErrOrStderr(), "gathering "+stage) },
			})
			if err != nil {
				return cluster.Explain(err)
			}
			for _, m := range missing {
				fmt.Fprintln(cmd.ErrOrStderr(), "missing:", m)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), file)
			return err
		},
	}
	f.bindCluster(command)
	command.Flags().StringVarP(&f.namespace, "namespace", "n", "", "only what is in this namespace")
	command.Flags().BoolVarP(&all, "all-namespaces", "A", false, "all namespaces (default)")
	command.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	f.completeNamespaces(command)
	command.Flags().StringVarP(&file, "output", "o", "", "file that is written; slipway-support-TIME.tar.gz in this directory when empty")
	_ = command.MarkFlagFilename("output", "tar.gz", "tgz")
	command.Flags().BoolVar(&journals, "host-journals", false, "with the logs of the local hosts of a plane of this machine")
	command.Flags().DurationVar(&since, "since", 24*time.Hour, "how far back logs of pods and events go")
	command.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long to gather; what was gathered by then is the bundle")
	return command
}

// writeBundle writes the file whole or not at all.
func writeBundle(ctx context.Context, file string, cluster *management.Cluster, o support.Options) (missing []string, err error) {
	// Files of CreateTemp are for their user alone.
	partial, err := os.CreateTemp(filepath.Dir(file), ".slipway-support-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = partial.Close()
		_ = os.Remove(partial.Name())
	}()
	report, err := diagnose(ctx, cluster, status.Scope{Namespace: o.Namespace})
	if err != nil {
		report = doctor.Report{Time: o.Now, Findings: []doctor.Finding{}, Unread: []doctor.Unread{{Kind: "anything", Message: err.Error()}}}
	}
	if missing, err = support.Write(ctx, partial, cluster, report, o); err != nil {
		return nil, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err() // somebody pressed Ctrl-C
	}
	if err := durable.SyncFile(partial); err != nil {
		return nil, err
	}
	return missing, durable.Rename(partial.Name(), file)
}
