package up

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/plane/internal/status"
)

// NextSteps tells what stands and what to do with it.
func NextSteps(out io.Writer, s *Session) error {
	fmt.Fprintf(out, "\nUp in %.1fs.\n", s.Progress.Elapsed().Seconds())
	if s.Options.File != nil {
		if err := printNodes(out, s); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "\nNext:\n  export KUBECONFIG=$(slipway kubeconfig)          # the management plane\n")
	if s.Options.File != nil {
		for _, c := range s.Options.File.Clusters {
			flag := ""
			if c.GetNamespace() != Namespace {
				flag = " -n " + c.GetNamespace()
			}
			fmt.Fprintf(out, "  export KUBECONFIG=$(slipway kubeconfig %s%s)    # the cluster %q\n", c.GetName(), flag, c.GetName())
		}
	}
	_, err := fmt.Fprint(out, "  slipway status --watch                           # what there is, and what is waited for\n  slipway down                                     # stop it all; --purge removes it\n")
	return err
}

func printNodes(out io.Writer, s *Session) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\nCLUSTER\tNODE\tREADY\tVERSION\tPROVIDER ID")
	for _, c := range s.Options.File.Clusters {
		nodes, err := s.nodes(context.Background(), client.ObjectKeyFromObject(c))
		if err != nil {
			return err
		}
		for i := range nodes {
			n := status.NodeOf(&nodes[i])
			fmt.Fprintf(w, "%s\t%s\t%t\t%s\t%s\n", c.GetName(), n.Name, n.Ready, n.Version, n.ProviderID)
		}
	}
	return w.Flush()
}
