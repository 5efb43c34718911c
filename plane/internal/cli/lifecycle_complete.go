package cli

import (
	"context"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
)

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete offers what names finds; nothing when that fails, for nobody reads errors
// while completing.
func complete(connect func() (client.Client, error), names func(ctx context.Context, c client.Client, args []string) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(cmd.Context(), c, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeClusters completes the first argument with the clusters of a namespace, which
// a flag may set.
func completeClusters(connect func() (client.Client, error), namespace *string) completion {
	return complete(connect, func(ctx context.Context, c client.Client, args []string) ([]string, error) {
		list := &clusterv1.ClusterList{}
		if len(args) > 0 {
			return nil, nil
		}
		err := c.List(ctx, list, client.InNamespace(*namespace))
		return namesOf(list.Items, func(cluster *clusterv1.Cluster) string { return cluster.Name }), err
	})
}

// completeRuns completes the first argument with the runs that are of use.
func (f *lifecycleFlags) completeRuns(useful func(*lifecyclev1.LifecycleRun) bool) completion {
	return complete(f.client, func(ctx context.Context, c client.Client, args []string) ([]string, error) {
		list := &lifecyclev1.LifecycleRunList{}
		if len(args) > 0 {
			return nil, nil
		}
		err := c.List(ctx, list, client.InNamespace(f.namespace))
		return namesOf(list.Items, func(run *lifecyclev1.LifecycleRun) string {
			if !useful(run) {
				return ""
			}
			return run.Name
		}), err
	})
}

// completeSteps completes with the steps that are of use, of the run that is the first
// argument.
func (f *lifecycleFlags) completeSteps(useful func(*lifecyclev1.LifecycleRun, *lifecyclev1.Step) bool) completion {
	return complete(f.client, func(ctx context.Context, c client.Client, args []string) ([]string, error) {
		run := &lifecyclev1.LifecycleRun{}
		if len(args) == 0 {
			return nil, nil
		}
		err := c.Get(ctx, f.key(args[0]), run)
		return namesOf(run.Spec.Steps, func(step *lifecyclev1.Step) string {
			if !useful(run, step) {
				return ""
			}
			return step.Name
		}), err
	})
}

func namesOf[T any](items []T, name func(*T) string) []string {
	var names []string
	for i := range items {
		if found := name(&items[i]); found != "" {
			names = append(names, found)
		}
	}
	return names
}

func unfinished(run *lifecyclev1.LifecycleRun) bool { return !plan.Finished(run) }

// current says whether a step can be decided about.
func current(run *lifecyclev1.LifecycleRun, step *lifecyclev1.Step) bool {
	return unfinished(run) && plan.Current(run).Name == step.Name
}

func jobs(_ *lifecyclev1.LifecycleRun, step *lifecyclev1.Step) bool { return step.Job != nil }

func withJobs(run *lifecyclev1.LifecycleRun) bool {
	for i := range run.Spec.Steps {
		if run.Spec.Steps[i].Job != nil {
			return true
		}
	}
	return false
}
