package cli

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/display"
	hosts "github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/internal/text"
)

// hostAssignFlags say where hosts go.
type hostAssignFlags struct {
	managementFlags
	to      string
	timeout time.Duration
	output  string
}

func hostAssignCommand(p *Program) *cobra.Command {
	f := &hostAssignFlags{managementFlags: managementFlags{program: p}}
	command := &cobra.Command{
		Use:   "assign HOST...",
		Short: "Assign free hosts to another namespace",
		Long: `Assign free hosts to another namespace of the management cluster. On the host, only its
agent switches to the Host of the same name in that namespace; nobody claims it
meanwhile, and then the Host here is deleted. Labels, failure domain and reset policy
are copied; annotations, spec.unschedulable and spec.evacuate are not. After an
interruption or a time-out the same command continues.

It takes the verbs get, patch, delete and order on hosts in the namespace of the hosts,
and get, create and order in the other one.`,
		Example:           "  slipway host assign rack1-a rack1-b -n spare --to prod",
		Args:              cobra.MinimumNArgs(1),
		RunE:              f.on(func(cmd *cobra.Command, s *session, names []string) error { return f.assign(cmd, s, names) }),
		ValidArgsFunction: f.completeFree(),
	}
	f.bind(command, "of the hosts")
	command.Flags().StringVar(&f.to, "to", "", "namespace that the hosts go to")
	command.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait until the hosts are there")
	_ = command.MarkFlagRequired("to")
	_ = command.RegisterFlagCompletionFunc("to", f.complete(namespaceNames))
	outputFlag(command, &f.output, listFormats...)
	return command
}

func (f *hostAssignFlags) assign(cmd *cobra.Command, s *session, names []string) error {
	if f.timeout <= 0 {
		return errors.New("--timeout: want a positive duration, for example 2m")
	}
	begin := time.Now()
	results, err := change.Assign(cmd.Context(), change.AssignOptions{
		Client: s, From: s.namespace, To: f.to, Timeout: f.timeout,
		Report: func(name, waiting string) {
			_ = display.WriteVisible(cmd.ErrOrStderr(), fmt.Sprintf("%4.0fs  %s: %s\n", time.Since(begin).Seconds(), name, text.OneLine(waiting)))
		},
	}, names)
	if len(results) > 0 {
		err = errors.Join(err, assignmentsResult(results).write(cmd.OutOrStdout(), f.output))
	}
	return err
}

// completeFree completes each argument with the hosts of the namespace that are free, and
// those that an earlier command did not finish with.
func (f *managementFlags) completeFree() completion {
	return f.complete(func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		list := &infrav1.HostList{}
		err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
		return namesOf(list.Items, func(h *infrav1.Host) string {
			free := hosts.StateOf(h).Phase == infrav1.HostPhaseAvailable || hosts.Leaving(h)
			if !free || slices.Contains(args, h.Name) {
				return ""
			}
			return h.Name
		}), err
	})
}

func assignmentsResult(results []change.Assigned) result {
	shown := result{object: results, table: func(out *display.Page, _ bool) error {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAMESPACE\tNAME\tSTATE")
		for _, r := range results {
			fmt.Fprintf(w, "%s\t%s\t%s\n", r.Namespace, r.Name, r.State)
		}
		return w.Flush()
	}}
	for _, r := range results {
		shown.names = append(shown.names, hostName(r.Name))
	}
	return shown
}
