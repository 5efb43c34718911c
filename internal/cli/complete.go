package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/status"
)

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// complete offers what names finds; nothing when that fails, for nobody reads errors
// while completing.
func (f *managementFlags) complete(names func(cmd *cobra.Command, s *session, args []string) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := f.open(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, err := names(cmd, s, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeContexts offers the contexts of the kubeconfig.
func (f *managementFlags) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

func namespaceNames(cmd *cobra.Command, s *session, _ []string) ([]string, error) {
	list := &corev1.NamespaceList{}
	err := s.List(cmd.Context(), list)
	return namesOf(list.Items, func(namespace *corev1.Namespace) string { return namespace.Name }), err
}

// completeClusters completes the first argument with the clusters of the namespace.
func (f *managementFlags) completeClusters() completion {
	return f.complete(func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		list := &clusterv1.ClusterList{}
		if len(args) > 0 {
			return nil, nil
		}
		err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
		return namesOf(list.Items, func(cluster *clusterv1.Cluster) string { return cluster.Name }), err
	})
}

// completeUnapproved completes each argument with the hosts of the namespace that are
// not approved.
func (f *managementFlags) completeUnapproved() completion {
	return f.complete(func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		names, err := unapproved(cmd, s)
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), err
	})
}

// completeHosts completes each argument with the hosts of the namespace.
func (f *managementFlags) completeHosts() completion {
	return f.complete(func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		list := &infrav1.HostList{}
		err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
		return namesOf(list.Items, func(h *infrav1.Host) string {
			if slices.Contains(args, h.Name) {
				return ""
			}
			return h.Name
		}), err
	})
}

// completePools completes --pool with the groups of workers of the cluster that is the first argument; how many
// follows without a space.
func (f *managementFlags) completePools() completion {
	found := f.complete(poolNames("="))
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		names, directive := found(cmd, args, typed)
		return names, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// completePoolNames completes --pool with one of them.
func (f *managementFlags) completePoolNames() completion { return f.complete(poolNames("")) }

func poolNames(end string) func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
	return func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		cluster := &clusterv1.Cluster{}
		if len(args) == 0 {
			return nil, nil
		}
		err := s.Get(cmd.Context(), s.key(args[0]), cluster)
		names := clusters.WorkerNames(&cluster.Spec.Topology.Workers)
		return namesOf(names, func(name *string) string { return *name + end }), err
	}
}

// versionNames are the versions of Kubernetes that a host of the namespace has.
func versionNames(cmd *cobra.Command, s *session, _ []string) ([]string, error) {
	list := &infrav1.HostList{}
	err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
	var versions []string
	for i := range list.Items {
		versions = append(versions, list.Items[i].Status.Inventory.KubernetesVersions...)
	}
	slices.SortFunc(versions, func(a, b string) int { return status.NaturalCompare(b, a) })
	return slices.Compact(versions), err
}

// failureDomains are those of the hosts of the namespace.
func failureDomains(cmd *cobra.Command, s *session, _ []string) ([]string, error) {
	list := &infrav1.HostList{}
	err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
	domains := namesOf(list.Items, func(h *infrav1.Host) string { return h.Spec.FailureDomain })
	slices.SortFunc(domains, status.NaturalCompare)
	return slices.Compact(domains), err
}

// completeRuns completes the first argument with the runs that are of use.
func (f *managementFlags) completeRuns(useful func(*lifecyclev1.LifecycleRun) bool) completion {
	return f.complete(func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		list := &lifecyclev1.LifecycleRunList{}
		if len(args) > 0 {
			return nil, nil
		}
		err := s.List(cmd.Context(), list, client.InNamespace(s.namespace))
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
func (f *managementFlags) completeSteps(useful func(*lifecyclev1.LifecycleRun, *lifecyclev1.Step) bool) completion {
	return f.complete(func(cmd *cobra.Command, s *session, args []string) ([]string, error) {
		run := &lifecyclev1.LifecycleRun{}
		if len(args) == 0 {
			return nil, nil
		}
		err := s.Get(cmd.Context(), s.key(args[0]), run)
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

// completeFlag offers values for a flag.
func completeFlag(command *cobra.Command, flag string, values []string) {
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeList offers values for a flag that takes several, separated by commas: those
// that are not in it yet.
func completeList(values []string) completion {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var offered []string
		for _, value := range values {
			if !slices.Contains(strings.Split(before, ","), value) {
				offered = append(offered, before+value)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}
