package cli

import (
	"context"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
)

func statusCommand(p *Program) *cobra.Command {
	var (
		output  string
		explain string
		watch   watchFlag
	)
	f := &scopeFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the management cluster, its clusters and hosts, and what is waited for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, scope, err := f.target(cmd)
			if err != nil {
				return err
			}
			return watch.show(cmd, output, func(ctx context.Context) (result, error) {
				if explain != "" {
					shown, err := placementResult(ctx, cluster, scope.Namespace, explain)
					return shown, cluster.Explain(err)
				}
				s, err := cluster.Status(ctx, scope)
				shown := statusResult(s)
				if err == nil && scope.Narrow() && len(shown.names) == 0 {
					shown.table = func(page *display.Page, wide bool) error {
						status.Render(page, s, wide)
						page.Paragraph("", f.none("clusters or hosts")+".")
						return nil
					}
				}
				return shown, cluster.Explain(err)
			})
		},
	}
	f.bind(command)
	watch.bind(command)
	command.Flags().StringVar(&explain, "explain", "", "show which hosts fit this machine (name or namespace/name), and why the others don't")
	outputFlag(command, &output, listFormats...)
	return command
}

func statusResult(s status.Status) result {
	shown := result{object: s, table: func(page *display.Page, wide bool) error {
		status.Render(page, s, wide)
		return nil
	}}
	for _, c := range s.Clusters {
		shown.names = append(shown.names, "cluster."+clusterv1.GroupVersion.Group+"/"+c.Name)
	}
	for _, h := range s.Hosts {
		shown.names = append(shown.names, hostName(h.Name))
	}
	return shown
}

func hostName(name string) string { return "host." + infrav1.GroupVersion.Group + "/" + name }

func placementResult(ctx context.Context, cluster *management.Cluster, namespace, machine string) (result, error) {
	c, err := cluster.Client()
	if err != nil {
		return result{}, err
	}
	p, err := status.Explain(ctx, c, namespace, machine)
	shown := result{object: p, table: func(page *display.Page, _ bool) error {
		status.RenderPlacement(page, p)
		return nil
	}}
	for _, h := range p.Hosts {
		if h.Fits {
			shown.names = append(shown.names, hostName(h.Name))
		}
	}
	return shown, err
}
