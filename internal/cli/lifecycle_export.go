package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/runs"
)

func exportCommand(p *Program) *cobra.Command {
	f := &managementFlags{program: p}
	var file, name, place string
	command := &cobra.Command{
		Use:   "export CLUSTER -f FILE",
		Short: "Write the archive that an export step made of a cluster",
		Long: `Export assembles the archive from its Secrets, verifies the digests of all parts and of
the whole, and writes it as tar.gz, readable by nobody else. The cluster may be gone. Of
several archives it uses the newest. --archive-namespace is export.namespace of the
step, if set.`,
		Example: "  slipway lifecycle export prod -f prod.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			in := cmp.Or(place, s.namespace)
			archives, err := runs.Archives(cmd.Context(), s, in, s.key(args[0]))
			if err != nil {
				return err
			}
			archive, err := chooseArchive(archives, in, args[0], name)
			if err != nil {
				return err
			}
			data, err := runs.Assemble(cmd.Context(), s, in, archive)
			if err != nil {
				return err
			}
			if err := durable.Write(file, data, 0o600); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d objects, %d bytes, %s\n", file, archive.Objects, archive.Bytes, archive.Digest)
			return err
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command, "of the cluster")
	command.Flags().StringVarP(&file, "file", "f", "", "file that is written; an existing one is replaced")
	_ = command.MarkFlagRequired("file")
	command.Flags().StringVar(&name, "archive", "", "name of the archive; the newest when empty")
	command.Flags().StringVar(&place, "archive-namespace", "", "namespace that holds the archive; the cluster's when empty")
	return command
}

func chooseArchive(archives []runs.Archive, namespace, cluster, name string) (*runs.Archive, error) {
	if len(archives) == 0 {
		return nil, fmt.Errorf("there is no archive of a cluster %s in namespace %s: an export step of a LifecyclePolicy makes one, in another namespace (--archive-namespace) if it says so", cluster, namespace)
	}
	if name == "" {
		return &archives[len(archives)-1], nil
	}
	if i := slices.IndexFunc(archives, func(a runs.Archive) bool { return a.Name == name }); i >= 0 {
		return &archives[i], nil
	}
	names := make([]string, 0, len(archives))
	for _, a := range archives {
		names = append(names, a.Name)
	}
	return nil, fmt.Errorf("there is no archive %s of cluster %s, only %s", name, cluster, strings.Join(names, ", "))
}
