package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/snapshot"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/internal/text"
)

func clusterCommand(p *Program) *cobra.Command {
	command := &cobra.Command{
		Use:     "cluster",
		Aliases: []string{"clusters"},
		Short:   "Create, resize, upgrade, reboot and delete clusters of a ClusterClass",
	}
	command.AddCommand(clusterCreateCommand(p), clusterGetCommand(p), clusterDescribeCommand(p), clusterScaleCommand(p), clusterUpgradeCommand(p), clusterRebootCommand(p), clusterDeleteCommand(p))
	return command
}

// getCluster reads the Cluster that a user names.
func getCluster(ctx context.Context, cmd *cobra.Command, s *session, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := s.Get(ctx, s.key(name), cluster)
	if apierrors.IsNotFound(err) {
		return nil, noCluster(cmd, s, name)
	}
	return cluster, err
}

func noCluster(cmd *cobra.Command, s *session, name string) error {
	return fmt.Errorf("there is no Cluster %s in namespace %s; `%s cluster get -A` shows the clusters", name, s.namespace, cmd.Root().CommandPath())
}

func clusterName(name string) string { return "cluster." + clusterv1.GroupVersion.Group + "/" + name }

func clusterGetCommand(p *Program) *cobra.Command {
	var shown listFlags
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:     "get [CLUSTER...]",
		Aliases: []string{"list", "ls"},
		Short:   "List clusters: class, version, machines, and what they wait for",
		Example: `  slipway cluster get
  slipway cluster get prod -n default -o wide`,
		RunE: f.on(func(cmd *cobra.Command, s *session, names []string) error {
			scope, err := f.scope()
			if err != nil {
				return err
			}
			return showList(cmd, shown, func(ctx context.Context) (list[clusterRow], error) {
				rows, err := clusterRows(ctx, cmd, s, scope, names)
				found := clustersList(rows)
				found.empty = f.none("clusters")
				return found, s.cluster.Explain(err)
			})
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command)
	shown.bind(command)
	return command
}

func clusterDescribeCommand(p *Program) *cobra.Command {
	var watch watchFlag
	output := ""
	f := &managementFlags{program: p}
	command := &cobra.Command{
		Use:   "describe CLUSTER",
		Short: "Show a cluster as a tree: control plane, pools, machines and hosts, with what is wrong and the command that ends it",
		Example: `  slipway cluster describe prod
  slipway cluster describe prod -n default -w`,
		Args: cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			return watch.show(cmd, output, func(ctx context.Context) (result, error) {
				o, err := doctor.ReadFleet(ctx, s, status.Scope{Namespace: s.namespace}, time.Now(), status.Members, []snapshot.Kind{snapshot.Machines})
				if err != nil {
					return result{}, s.cluster.Explain(err)
				}
				cluster, err := getCluster(ctx, cmd, s, args[0])
				if err != nil {
					return result{}, s.cluster.Explain(err)
				}
				tree := status.TreeOf(cluster, o, status.Judge(o))
				return result{object: tree, names: []string{clusterName(tree.Name)}, table: func(page *display.Page, wide bool) error {
					status.RenderTree(page, tree, wide, time.Now())
					return nil
				}}, nil
			})
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command, "of the cluster")
	watch.bind(command)
	outputFlag(command, &output, listFormats...)
	return command
}

// clusterRow is a cluster as `cluster get` shows it.
type clusterRow struct {
	clusters.State
	// How it is, as `status` and `doctor` say it.
	How status.State `json:"state"`
}

// clusterRows are the clusters that are named, in the namespace of -n or of the context, or all that
// are in scope.
func clusterRows(ctx context.Context, cmd *cobra.Command, s *session, scope status.Scope, names []string) ([]clusterRow, error) {
	needed := []snapshot.Kind{snapshot.Clusters}
	if len(names) > 0 {
		scope, needed = status.Scope{Namespace: s.namespace}, nil // the right to get them is enough
	}
	o, err := doctor.ReadFleet(ctx, s, scope, time.Now(), nil, needed)
	if err != nil {
		return nil, err
	}
	states := status.Judge(o)
	rows := []clusterRow{}
	for _, name := range names {
		cluster, err := getCluster(ctx, cmd, s, name)
		if err != nil {
			return nil, err
		}
		rows = append(rows, clusterRow{clusters.Look(cluster), states.Cluster(cluster)})
	}
	for i := range o.Clusters {
		if cluster := &o.Clusters[i]; len(names) == 0 && scope.Shows(cluster) {
			rows = append(rows, clusterRow{clusters.Look(cluster), states.Cluster(cluster)})
		}
	}
	return rows, nil
}

func clustersList(rows []clusterRow) list[clusterRow] {
	return list[clusterRow]{rows: rows, name: func(r *clusterRow) string { return clusterName(r.Name) }, table: printClusters}
}

func printClusters(page *display.Page, rows []clusterRow, wide bool) error {
	t := display.Table{Columns: display.Columns("NAMESPACE/3", "NAME", "CLASS/6", "VERSION/5", "CONTROL PLANE/2", "WORKERS/2", "STATE", "FOR/1")}
	if wide {
		t.Columns = append(t.Columns, display.Columns("BECAUSE", "NEXT")...)
	}
	now := time.Now()
	for i := range rows {
		r := &rows[i]
		cells := append(display.Texts(r.Namespace, r.Name, r.Class, r.Version, r.ControlPlane.String(), r.Workers.String()), r.How.Cells(now)...)
		if wide {
			cells = append(cells, display.Texts(cmp.Or(r.How.Cause, text.OneLine(r.Waiting)), r.How.Next)...)
		}
		t.Rows = append(t.Rows, display.Row{Cells: cells})
	}
	page.Table(t)
	return nil
}
