package doctor

import (
	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/plan"
	"github.com/slipway-dev/slipway/internal/runs"
)

var _ = register(Check{
	Layer:  Extension + 4,
	Name:   "LifecycleHookWaits",
	Effect: Decision,
	Means:  "a lifecycle policy blocks a cluster: a condition is false, a window closed, an approval missing, or a step failed",
	Remedy: "Approve, wait for the window, or skip the step; retry one that failed. While a hook of the topology waits, other changes of the cluster wait, too.",
	find: func(s *Snapshot) []Finding {
		return each(s.LifecycleRuns, func(run *lifecyclev1.LifecycleRun) (Finding, bool) {
			cluster := s.Cluster(run.Namespace, run.Spec.ClusterName)
			if cluster == nil {
				return none()
			}
			wait := plan.WaitOf(run, cluster, s.Now)
			if wait == nil {
				return none()
			}
			f := at(lifecyclev1.GroupVersion, "LifecycleRun", run, Warning).since(run.CreationTimestamp.Time)
			f.Cluster, f.Message = cluster.Name, wait.Message
			f = f.next("slipway lifecycle explain %s -n %s", cluster.Name, cluster.Namespace)
			if wait.Failed {
				f.Severity = Error
			}
			for _, step := range runs.RunOf(run, cluster, s.Now).Steps {
				if step.Since != nil && (step.Until == nil || step.State == string(lifecyclev1.OutcomeFailed)) {
					f = f.since(*step.Since)
				}
			}
			if !wait.Failed && runs.WaitingForApproval(run) != "" {
				f = f.next("slipway approve %s -n %s", run.Name, run.Namespace)
			}
			return f, true
		})
	},
})
