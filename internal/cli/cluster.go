package cli

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/clusters"
)

func clusterCommand(p *Program) *cobra.Command {
	command := &cobra.Command{
		Use:   "cluster",
		Short: "Create, resize, upgrade and delete clusters of a ClusterClass",
	}
	command.AddCommand(clusterCreateCommand(p), clusterGetCommand(p), clusterScaleCommand(p), clusterUpgradeCommand(p), clusterDeleteCommand(p))
	return command
}

// getCluster reads the Cluster that a user names.
func getCluster(cmd *cobra.Command, s *session, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := s.Get(cmd.Context(), s.key(name), cluster)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Cluster %s in namespace %s; `%s cluster get -A` shows the clusters", name, s.namespace, cmd.Root().CommandPath())
	}
	return cluster, err
}

func clusterName(name string) string { return "cluster." + clusterv1.GroupVersion.Group + "/" + name }

func clusterGetCommand(p *Program) *cobra.Command {
	var output string
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "get [CLUSTER...]",
		Short: "List clusters: class, version, machines, and what they wait for",
		Example: `  slipway cluster get
  slipway cluster get prod -n default -o wide`,
		RunE: f.on(func(cmd *cobra.Command, s *session, names []string) error {
			states, err := f.states(cmd, s, names)
			if err != nil {
				return err
			}
			return clustersResult(states).write(cmd.OutOrStdout(), output)
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command)
	outputFlag(command, &output, listFormats...)
	return command
}

// states of the clusters that are named, in the namespace of -n or of the context, or of
// all that are in scope.
func (f *scopeFlags) states(cmd *cobra.Command, s *session, names []string) ([]clusters.State, error) {
	states := []clusters.State{}
	for _, name := range names {
		cluster, err := getCluster(cmd, s, name)
		if err != nil {
			return nil, err
		}
		states = append(states, clusters.Look(cluster))
	}
	if len(names) > 0 {
		return states, nil
	}
	scope, err := f.scope()
	if err != nil {
		return nil, err
	}
	list := &clusterv1.ClusterList{}
	if err := s.List(cmd.Context(), list, client.InNamespace(scope.Namespace), client.MatchingLabelsSelector{Selector: scope.Selector}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		states = append(states, clusters.Look(&list.Items[i]))
	}
	return states, nil
}

func clustersResult(states []clusters.State) result {
	shown := result{object: states, table: func(out io.Writer, wide bool) error { return printClusters(out, states, wide) }}
	for _, s := range states {
		shown.names = append(shown.names, clusterName(s.Name))
	}
	return shown
}

func printClusters(out io.Writer, states []clusters.State, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	header := "NAMESPACE\tNAME\tCLASS\tVERSION\tCONTROL PLANE\tWORKERS\tPHASE\tAVAILABLE"
	if wide {
		header += "\tWAITING FOR"
	}
	fmt.Fprintln(w, header)
	for _, s := range states {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", s.Namespace, s.Name, s.Class, s.Version, s.ControlPlane, s.Workers, s.Phase, s.Available)
		if wide {
			fmt.Fprintf(w, "\t%s", oneLine(s.Waiting))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
