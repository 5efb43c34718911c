package up

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/status"
)

// NextSteps tells what stands and what to do with it. Command is how the user
// calls slipway.
func NextSteps(ctx context.Context, out io.Writer, s *Session, command string) error {
	fmt.Fprintf(out, "\nUp in %.1fs.\n", s.Progress.Elapsed().Seconds())
	if !s.withoutCluster() {
		if err := printNodes(ctx, out, s); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "\nNext:")
	w := tabwriter.NewWriter(out, 0, 8, 4, ' ', 0)
	fmt.Fprintf(w, "  export KUBECONFIG=$(%s kubeconfig)\t# the management plane\n", command)
	if !s.withoutCluster() {
		for _, c := range s.Options.File.Clusters {
			flag := ""
			if c.GetNamespace() != Namespace {
				flag = " -n " + c.GetNamespace()
			}
			fmt.Fprintf(w, "  export KUBECONFIG=$(%s kubeconfig %s%s)\t# the cluster %q\n", command, c.GetName(), flag, c.GetName())
		}
	}
	fmt.Fprintf(w, "  %s status --watch\t# what there is, and what is waited for\n", command)
	if at, err := s.Instance.ListensAt(); err == nil && at != nil {
		fmt.Fprintf(w, "  %s host add ADDRESS\t# make a host of another machine, which reaches the plane at %s\n", command, at.Server())
	}
	if s.Service != nil {
		fmt.Fprintf(w, "  %s\t# the log of the plane, which systemd starts with this machine\n", s.Service.LogCommand())
	}
	fmt.Fprintf(w, "  %s down\t# stop it all; --purge removes it\n", command)
	return w.Flush()
}

func printNodes(ctx context.Context, out io.Writer, s *Session) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nCLUSTER\tNODE\tREADY\tVERSION")
	for _, c := range s.Options.File.Clusters {
		nodes, err := s.nodes(ctx, client.ObjectKeyFromObject(c))
		if err != nil {
			return err
		}
		for i := range nodes {
			n := status.NodeOf(&nodes[i])
			fmt.Fprintf(w, "%s\t%s\t%t\t%s\n", c.GetName(), n.Name, n.Ready, n.Version)
		}
	}
	return w.Flush()
}
