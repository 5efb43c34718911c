package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/runs"
)

// runNamed returns the LifecycleRun of that name.
func runNamed(cmd *cobra.Command, s *session, name string) (*lifecyclev1.LifecycleRun, error) {
	run, err := runs.Find(cmd.Context(), s, s.key(name))
	if err == nil && run == nil {
		err = fmt.Errorf("there is no LifecycleRun %s in namespace %s; `%s lifecycle explain CLUSTER` lists them", name, s.namespace, cmd.Root().CommandPath())
	}
	return run, err
}

func lifecycleCommand(p *Program) *cobra.Command {
	command := &cobra.Command{
		Use:   "lifecycle",
		Short: "Show what lifecycle policies do for a cluster, and decide about it",
	}
	command.AddCommand(explainCommand(p), approveCommand(p), decideCommand(p, "skip", lifecyclev1.DecisionSkip, "Skip a waiting or failed step"),
		decideCommand(p, "retry", lifecyclev1.DecisionRetry, "Retry a failed step"), logsCommand(p), exportCommand(p))
	return command
}

func explainCommand(p *Program) *cobra.Command {
	f, output, watch := &managementFlags{program: p}, "", watchFlag{}
	command := &cobra.Command{
		Use:   "explain CLUSTER",
		Short: "Show which policies match a cluster, what their runs wait for, and what to do",
		Args:  cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			return watch.show(cmd, output, func(ctx context.Context) (result, error) {
				e, err := runs.Explain(ctx, s, s.key(args[0]), time.Now())
				if apierrors.IsNotFound(err) {
					return result{}, noCluster(cmd, s, args[0])
				}
				if err != nil {
					return result{}, s.cluster.Explain(err)
				}
				shown := result{object: e, table: func(page *display.Page, _ bool) error { return runs.Render(page, e) }}
				for i := range e.Runs {
					shown.names = append(shown.names, runName(e.Runs[i].Name))
				}
				return shown, nil
			})
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command, "of the cluster")
	watch.bind(command)
	outputFlag(command, &output, listFormats...)
	return command
}

func approveCommand(p *Program) *cobra.Command {
	f := &managementFlags{program: p}
	var step, reason, output string
	command := &cobra.Command{
		Use:   "approve CLUSTER|RUN",
		Short: "Approve a pending lifecycle step",
		Long: `Give the approval that a LifecyclePolicy requires: that of the LifecycleRun, or the one
that the cluster waits for. It takes the verb approve on the policy. The run records who
approved, when and why.`,
		Example: "  slipway approve prod --reason \"change 4711\"",
		Args:    cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			run, waits, err := runs.ToApprove(cmd.Context(), s, s.key(args[0]), step)
			if err != nil {
				return err
			}
			return decide(cmd, s, run, lifecyclev1.DecisionApprove, waits, reason, output)
		}),
		ValidArgsFunction: f.completeClusters(),
	}
	f.bind(command, "of the cluster")
	command.Flags().StringVar(&step, "step", "", "step that is approved; the one that waits when empty")
	command.Flags().StringVar(&reason, "reason", "", "reason that is recorded")
	outputFlag(command, &output, listFormats...)
	return command
}

func decideCommand(p *Program, name string, decision lifecyclev1.DecisionType, short string) *cobra.Command {
	f := &managementFlags{program: p}
	var step, reason, output string
	command := &cobra.Command{
		Use:   name + " RUN --step STEP --reason REASON",
		Short: short,
		Long:  short + ". It takes the verb " + name + " on the policy. Who decided, when\nand why is recorded in the run.",
		Args:  cobra.ExactArgs(1),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			run, err := runNamed(cmd, s, args[0])
			if err != nil {
				return err
			}
			return decide(cmd, s, run, decision, step, reason, output)
		}),
		ValidArgsFunction: f.completeRuns(unfinished),
	}
	f.bind(command, "of the run")
	command.Flags().StringVar(&step, "step", "", "step that is decided about")
	command.Flags().StringVar(&reason, "reason", "", "reason that is recorded")
	for _, required := range []string{"step", "reason"} {
		_ = command.MarkFlagRequired(required)
	}
	_ = command.RegisterFlagCompletionFunc("step", f.completeSteps(current))
	outputFlag(command, &output, listFormats...)
	return command
}

// decided is a decision in the JSON output, which is an API.
type decided struct {
	Namespace string               `json:"namespace"`
	Run       string               `json:"run"`
	Decision  lifecyclev1.Decision `json:"decision"`
}

func decide(cmd *cobra.Command, c client.Client, run *lifecyclev1.LifecycleRun, decision lifecyclev1.DecisionType, step, reason, output string) error {
	made, err := runs.Decide(cmd.Context(), c, run, decision, step, reason)
	if err != nil {
		return err
	}
	return decidedResult(decided{run.Namespace, run.Name, *made}).write(cmd.OutOrStdout(), output)
}

func decidedResult(d decided) result {
	return result{
		object: d, names: []string{runName(d.Run)},
		table: func(out *display.Page, _ bool) error {
			_, err := fmt.Fprintf(out, "%s: %s of step %s recorded for %s\n", d.Run, d.Decision.Type, d.Decision.Step, d.Decision.By)
			return err
		},
	}
}

func runName(name string) string {
	return "lifecyclerun." + lifecyclev1.GroupVersion.Group + "/" + name
}

func logsCommand(p *Program) *cobra.Command {
	f := &managementFlags{program: p}
	command := &cobra.Command{
		Use:   "logs RUN STEP",
		Short: "Print the stored logs of a step's Job",
		Args:  cobra.ExactArgs(2),
		RunE: f.on(func(cmd *cobra.Command, s *session, args []string) error {
			run, err := runNamed(cmd, s, args[0])
			if err != nil {
				return err
			}
			return runs.Logs(cmd.Context(), s, run, args[1], cmd.OutOrStdout())
		}),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, complete string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return f.completeSteps(jobs)(cmd, args, complete)
			}
			return f.completeRuns(withJobs)(cmd, args, complete)
		},
	}
	f.bind(command, "of the run")
	return command
}
